"""A Slurm in memory with the surface of slurm.backend.Backend, and a controller over it with a real SQLite store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

from api.controller import service_tables as _service_tables  # noqa: F401 - registers its own
from api.controller import tables as _tables  # noqa: F401 - registers the controller's tables
from api.controller.control import Controller
from api.controller.core import ControllerSettings
from api.store.base import metadata
from api.store.database import Database
from api.store.store import Store
from checks.judge.context import Context
from checks.judge.decide import decide
from checks.judge.guard import GuardLimits
from checks.judge.policy import Policy, merge, read_pack
from checks.wire import Batch, Decision, Finding, JobAttempt, Occasion, PermitRequest, Report
from slurm.backend import AfterReboot, Field
from slurm.batch import Batch as Work
from slurm.config import SlurmLimits
from slurm.errors import Exists, InvalidTransition, NotFound, SlurmError, Unreachable
from slurm.job import JobState
from slurm.reservation import Reservation, Reserved
from slurm.state import NodeState, Reason
from slurm.topology import Topology

POLICY_TEXT = """
version = "test"
[defaults."fail.node"]
prolog = "refuse"
interval = "drain"
confirm = 1
resume = "verify"
[codes.gpu_lost]
breaks_every_job = true
device_lost = true
lease = true
[codes.ecc_old]
confirm = 1
[codes.part_broken]
resume = "person"
[codes.shadowed]
shadow = true
"""


def policy() -> Policy:
    """A small policy that does not move when the shipped one does."""
    return merge([("test", read_pack(POLICY_TEXT, "test"))])


class FakeSlurm:
    """Nodes n1..nN, idle; every write is kept in ``writes`` and can be made to fail by ``error``."""

    def __init__(self, count: int = 4) -> None:
        self.table = {f"n{i}": NodeState(f"n{i}", "IDLE", partitions=("main",)) for i in range(1, count + 1)}
        self.writes: list[tuple[str, str, str]] = []
        self.jobs: dict[int, JobState] = {}
        self.error: SlurmError | None = None
        self.requeued: list[int] = []
        self.notes: dict[int, str] = {}
        self.submitted: dict[int, Work] = {}
        self.reserved: dict[str, Reserved] = {}
        self.booted = datetime(2026, 1, 1, tzinfo=timezone.utc)
        self._disk = dict(self.table)

    def save(self) -> None:
        """What slurmctld does every few seconds; a crash takes it back to this."""
        self._disk = dict(self.table)

    def crash(self) -> None:
        """Slurmctld dies before it has saved, and another one starts."""
        self.table = dict(self._disk)
        self.booted += timedelta(minutes=1)

    def node(self, name: str) -> NodeState:
        self._raise()
        if name not in self.table:
            raise NotFound(name)
        return self.table[name]

    def nodes(self) -> dict[str, NodeState]:
        self._raise()
        return dict(self.table)

    def drain(self, name: str, reason: str) -> None:
        self.set(name, "drain", reason)

    def set_reason(self, name: str, reason: str) -> None:
        self.set(name, "reason", reason)

    def set(self, name: str, verb: str, reason: str, *, user: str = "slurm") -> None:
        """Write as anybody could; used by tests for an administrator's hand as well."""
        self._raise()
        state = self.node(name)
        self.writes.append((verb, name, reason))
        flags = state.flags | {"DRAIN"} if verb == "drain" else state.flags
        now = datetime.now(timezone.utc)
        self.table[name] = replace(state, flags=flags, reason=Reason(reason, user, now))

    def resume(self, name: str) -> None:
        self._raise()
        state = self.node(name)
        if not state.out_of_service:
            raise InvalidTransition(name)
        self.writes.append(("resume", name, ""))
        self.table[name] = replace(state, base="IDLE", flags=state.flags - {"DRAIN"}, reason=None)

    def job(self, job_id: int) -> JobState | None:
        self._raise()
        return self.jobs.get(job_id)

    def requeue(self, job_id: int) -> None:
        self.requeued.append(job_id)

    def set_note(self, name: str, field: Field, text: str) -> None:
        self._raise()
        self.writes.append((field, name, text))
        state = self.node(name)
        self.table[name] = replace(state, comment=text) if field == "comment" else replace(state, extra=text)

    def reboot(self, name: str, reason: str, *, asap: bool = True, then: AfterReboot | None = "resume") -> None:
        self.set(name, "reboot", reason)
        state = self.table[name]
        flags = state.flags | {"REBOOT_REQUESTED"} | ({"DRAIN"} if asap else frozenset())
        self.table[name] = replace(state, flags=flags, next_state=then.upper() if then else None)

    def cancel_reboot(self, name: str) -> None:
        self._raise()
        state = self.node(name)
        if "REBOOT_REQUESTED" not in state.flags:
            raise InvalidTransition(name)
        self.writes.append(("cancel_reboot", name, ""))
        self.table[name] = replace(state, flags=state.flags - {"REBOOT_REQUESTED", "DRAIN"}, reason=None)

    def job_note(self, job_id: int) -> str:
        self._raise()
        return self.notes.get(job_id, "")

    def set_job_note(self, job_id: int, text: str) -> None:
        self._raise()
        self.notes[job_id] = text

    def submit(self, batch: Work) -> int:
        self._raise()
        job_id = 1001 + len(self.submitted)
        self.submitted[job_id] = batch
        self.jobs[job_id] = JobState(job_id, "PENDING")
        return job_id

    def cancel(self, job_id: int) -> None:
        self._raise()
        if job_id in self.jobs:
            self.jobs[job_id] = replace(self.jobs[job_id], state="CANCELLED")

    def reservations(self) -> dict[str, Reserved]:
        self._raise()
        return dict(self.reserved)

    def create_reservation(self, wish: Reservation) -> None:
        self._raise()
        if wish.name in self.reserved:
            raise Exists(wish.name)
        flags = frozenset(wish.flags)
        self.reserved[wish.name] = Reserved(wish.name, nodes=wish.nodes, flags=flags, users=wish.users)

    def delete_reservation(self, name: str) -> None:
        self._raise()
        if self.reserved.pop(name, None) is None:
            raise NotFound(name)

    def limits(self) -> SlurmLimits:
        self._raise()
        return SlurmLimits(prolog_flags=frozenset({"alloc"}), booted=self.booted)

    def topology(self) -> Topology:
        self._raise()
        return Topology()

    def ping(self) -> bool:
        return self.error is None

    def down(self) -> None:
        """From now on nothing answers."""
        self.error = Unreachable("Unable to contact slurm controller (connect failure)")

    def _raise(self) -> None:
        if self.error is not None:
            raise self.error


class Bench:
    """One controller, its store and its Slurm, with a clock that tests move."""

    def __init__(self, folder: Path, count: int, guard: GuardLimits | None, settings: ControllerSettings) -> None:
        self.slurm = FakeSlurm(count)
        self.database = Database(f"sqlite:///{folder / 'nodevet.db'}")
        metadata.create_all(self.database.engine)
        self.store = Store(self.database, policy())
        self.control = Controller(settings, self.database, self.store, self.slurm, policy=policy(), guard=guard)
        self.core = self.control.core
        self.offset = timedelta()
        self.core.clock = self.now
        self._sequence = 0

    def now(self) -> datetime:
        """The controller's time."""
        return datetime.now(timezone.utc) + self.offset

    def report(
        self,
        node: str,
        *findings: Finding,
        occasion: Occasion = "interval",
        notes: tuple[str, ...] = (),
        decision: Decision | None = None,
        job: JobAttempt | None = None,
        incarnation: str = "a",
        boot_id: str = "boot-a",
        age: float = 0.0,
    ) -> None:
        """Store one report of a node's agent, begun ``age`` seconds ago, with the agent's own decision."""
        self._sequence += 1
        if decision is None:
            decision = decide(findings, policy(), Context(occasion=occasion))
        made = Report(
            cluster="sim",
            node=node,
            incarnation=incarnation,
            sequence=self._sequence,
            occasion=occasion,
            started_at=self.now() - timedelta(seconds=age),
            seconds=0.1,
            findings=findings,
            notes=notes,
            decision=decision,
            job=job,
            boot_id=boot_id,
        )
        self.store.ingest(Batch(cluster="sim", node=node, incarnation=incarnation, reports=(made,)), self.now())

    def lost(self, target: str = "GPU 3", code: str = "gpu_lost", **changes: object) -> Finding:
        """A failing finding that blames the node."""
        made = Finding(
            check="gpu_health",
            target=target,
            status="fail",
            code=code,
            blame="node",
            message="fell off the bus",
            observed_at=self.now(),
            since=self.now(),
        )
        return Finding(**{**{f: getattr(made, f) for f in Finding.__struct_fields__}, **changes})

    def fine(self, check: str = "gpu_health", **changes: object) -> Finding:
        """The same check, content."""
        made = Finding(check=check, target="node", status="ok", code="ok", observed_at=self.now())
        return Finding(**{**{f: getattr(made, f) for f in Finding.__struct_fields__}, **changes})

    def request(self, node: str, job_id: int, *findings: Finding, nodes: int = 1) -> PermitRequest:
        """A prolog's question for a permit."""
        return PermitRequest(
            cluster="sim",
            node=node,
            incarnation="a",
            job=JobAttempt(job_id=job_id, restart_count=0, nodes=nodes),
            decision=Decision(verdict="faulty", wanted="refuse", codes=tuple(f.code for f in findings)),
            findings=findings,
        )

    async def tick(self) -> None:
        """One round of the controller with a fresh look at Slurm."""
        self.control._read_at = float("-inf")
        self.core.view.suspect()
        await self.control.tick()

    def incidents(self) -> set[tuple[str, str]]:
        """Open problems as (node, code)."""
        return {(i.node, i.code) for i in self.store.incidents(limit=1000) if i.closed_at is None}


@contextmanager
def bench(folder: Path, *, count: int = 4, guard: GuardLimits | None = None, **settings: object) -> Iterator[Bench]:
    """A bench that is closed afterwards; years of drains pass in it within a second, so their pace is off."""
    settings = {"calls_per_second": 1e6, **settings}
    made = Bench(folder, count, guard, ControllerSettings(cluster="sim", **settings))  # type: ignore[arg-type]
    try:
        yield made
    finally:
        made.database.close()
