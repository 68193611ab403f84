"""A controller that remembers what it was asked, and short ways to make reports."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Literal

from api.operation import OperationView
from api.ports import (
    DrainRow,
    DrainView,
    GuardView,
    OrderKind,
    OverrideView,
    PauseView,
    RiskView,
    SilenceView,
)
from checks.wire import (
    Batch,
    Blame,
    Decision,
    Finding,
    GateAnswer,
    GateRequest,
    JobAttempt,
    Lease,
    Limits,
    NodeFacts,
    Occasion,
    Order,
    PermitAnswer,
    PermitRequest,
    Quiet,
    Report,
    Status,
    Verdict,
)
from slurm.hostlist import expand
from slurm.state import NodeState
from tests.api.fake_remedies import FakeRemedies
from tests.api.fake_service import FakeService

T0 = datetime(2026, 12, 1, 9, 0, tzinfo=timezone.utc)
OPERATION = OperationView(
    id=1,
    cluster="c",
    actor="ann",
    verb="drain",
    nodes="n1",
    reason="fan",
    at=T0,
    undoes=None,
    undone_by=None,
    counts={},
)


class FakeDesk:
    """Remembers who overruled what."""

    def __init__(self) -> None:
        self.said: list[tuple[object, ...]] = []
        self.risky: dict[str, str] = {}

    async def accept(self, nodes: str, seconds: float, reason: str, actor: str) -> list[DrainRow]:
        self.said.append(("accept", nodes, seconds, reason, actor))
        return [DrainRow(cluster="c", node=n, outcome="done") for n in expand(nodes)]

    async def clear(self, nodes: str, reason: str, actor: str) -> list[DrainRow]:
        self.said.append(("clear", nodes, reason, actor))
        return [DrainRow(cluster="c", node=n, outcome="done") for n in expand(nodes)]

    def risks(self) -> list[RiskView]:
        return [
            RiskView(id=1, cluster="c", node="n1", code="gpu_lost", until=T0, reason="why", actor="ann", created_at=T0)
        ]

    def risk(self, cluster: str, node: str) -> str:
        return self.risky.get(node, "")

    def guard(self) -> GuardView:
        return GuardView(
            cluster="c", closed=False, headroom=2, nodes=4, in_service=4, floor=1, out_by_us=0, out_limit=2,
            promised=0, last_hour=0, hour_limit=3, groups=1, block_size=0, overrides=(),
        )  # fmt: skip

    async def override(self, code: str, seconds: float, reason: str, actor: str) -> OverrideView:
        self.said.append(("override", code, seconds, reason, actor))
        return OverrideView(id=3, cluster="c", code=code, until=T0, reason=reason, actor=actor, created_at=T0)

    async def end_override(self, actor: str) -> bool:
        self.said.append(("end", actor))
        return True

    async def undo(self, number: int | None, actor: str, *, dry_run: bool) -> list[DrainRow]:
        if number is not None and number > 1:
            raise ValueError(f"no operation {number}")
        self.said.append(("undo", number, actor, dry_run))
        return [DrainRow(cluster="c", node="n1", outcome="done", operation=2)]

    def operations(
        self, since: datetime | None, actor: str | None, before: int | None, limit: int
    ) -> list[OperationView]:
        return [OPERATION]

    def operation(self, number: int) -> OperationView | None:
        return OPERATION if number == 1 else None


class FakeController:
    """Answers at once; orders wait in a queue a node."""

    def __init__(self) -> None:
        self.desk = FakeDesk()
        self.remedy = FakeRemedies()
        self.service = FakeService()
        self.states: dict[str, NodeState] = {}
        self.reported: list[tuple[str, str]] = []
        self.drained: list[tuple[str, str, str]] = []
        self.resumed: list[tuple[str, str, bool, bool]] = []
        self.forgotten: list[str] = []
        self.waiting: dict[tuple[str, str], list[Order]] = {}
        self.in_force: list[DrainView] = []
        self.permits: list[PermitRequest] = []
        self.gates: list[GateRequest] = []
        self.rests: list[tuple[object, ...]] = []
        self.told: dict[str, Quiet] = {}
        self.abandoned = 0
        self.polled = asyncio.Event()

    async def permit(self, request: PermitRequest) -> PermitAnswer:
        self.permits.append(request)
        return PermitAnswer(granted=True, permit="p1", drained=True)

    async def gate(self, request: GateRequest) -> GateAnswer:
        self.gates.append(request)
        return GateAnswer(complete=True)

    async def orders(self, cluster: str, node: str, wait: float) -> tuple[Order, ...]:
        self.polled.set()
        found = tuple(self.waiting.get((cluster, node), ()))
        if not found and wait:
            try:
                await asyncio.sleep(wait)
            except asyncio.CancelledError:
                self.abandoned += 1
                raise
        return found

    async def order(
        self, cluster: str, node: str, kind: OrderKind, *, actor: str, checks: tuple[str, ...] = ()
    ) -> Order:
        made = Order(id=f"o{len(self.waiting)}", kind=kind, checks=checks)
        self.waiting.setdefault((cluster, node), []).append(made)
        return made

    def done(self, order_ids: tuple[str, ...]) -> None:
        self.forgotten += order_ids

    def holds(self, node: str, permits: tuple[str, ...]) -> None:
        self.held = (node, permits)

    def leases_for(self, cluster: str, node: str) -> tuple[Lease, ...]:
        return (Lease(permit="l1", codes=("gpu_lost",), expires_at=T0),)

    def limits(self) -> Limits:
        return Limits(budget=8.0)

    def slurm_state(self, node: str) -> NodeState | None:
        return self.states.get(node)

    def slurm_states(self) -> Mapping[str, NodeState]:
        return self.states

    async def preview(self, nodes: str, verb: Literal["drain", "resume"]) -> list[DrainRow]:
        return [DrainRow(cluster="c", node=n, outcome="planned") for n in expand(nodes)]

    async def drain(self, nodes: str, reason: str, actor: str) -> list[DrainRow]:
        self.drained.append((nodes, reason, actor))
        return [DrainRow(cluster="c", node=n, outcome="done") for n in expand(nodes)]

    async def resume(self, nodes: str, actor: str, verify: bool = True, force: bool = False) -> list[DrainRow]:
        self.resumed.append((nodes, actor, verify, force))
        return [DrainRow(cluster="c", node=n, outcome="done") for n in expand(nodes)]

    async def pause(self, nodes: str, seconds: float, reason: str, actor: str) -> list[DrainRow]:
        self.rests.append(("pause", nodes, seconds, reason, actor))
        return [DrainRow(cluster="c", node=n, outcome="done") for n in expand(nodes)]

    async def unpause(self, nodes: str, actor: str) -> list[DrainRow]:
        self.rests.append(("ready", nodes, actor))
        return [DrainRow(cluster="c", node=n, outcome="done") for n in expand(nodes)]

    def pauses(self) -> list[PauseView]:
        return [PauseView(cluster="c", node="n1", until=T0, reason="why", actor="ann", created_at=T0)]

    async def silence(
        self, *, check: str, nodes: str, partition: str, seconds: float, reason: str, actor: str
    ) -> list[SilenceView]:
        self.rests.append(("silence", check, nodes, partition, seconds, reason, actor))
        return self.silences()

    async def unsilence(self, number: int, actor: str) -> bool:
        self.rests.append(("unsilence", number, actor))
        return number < 8

    def silences(self) -> list[SilenceView]:
        return [
            SilenceView(
                id=7, cluster="c", check="gpu_count", node="", partition="",
                until=T0, reason="why", actor="ann", created_at=T0,
            )
        ]  # fmt: skip

    def quiet(self, cluster: str, node: str) -> Quiet | None:
        return self.told.get(node)

    def drains(self) -> list[DrainView]:
        return self.in_force

    def on_report(self, cluster: str, node: str) -> None:
        self.reported.append((cluster, node))

    def metrics(self) -> Mapping[str, float]:
        return {"permits_granted_total": 2.0, "guard_closed": 0.0}

    async def run(self) -> None:
        await asyncio.Event().wait()


def finding(
    check: str = "gpu_count",
    target: str = "GPU 3",
    status: Status = "fail",
    code: str = "gpu_lost",
    blame: Blame | None = "node",
    message: str = "gone",
) -> Finding:
    """One finding, a lost GPU unless told otherwise."""
    return Finding(check=check, target=target, status=status, code=code, blame=blame, message=message)


def good(check: str = "gpu_count", target: str = "node") -> Finding:
    """One ok finding."""
    return finding(check, target, "ok", "ok", None, "ok")


def report(
    sequence: int,
    *findings: Finding,
    node: str = "n1",
    occasion: Occasion = "interval",
    job: JobAttempt | None = None,
    verdict: Verdict = "healthy",
    incarnation: str = "boot-a",
    at: datetime | None = None,
    decision: Decision | None = None,
) -> Report:
    """One report of node ``n1`` of cluster ``c``."""
    return Report(
        cluster="c",
        node=node,
        incarnation=incarnation,
        sequence=sequence,
        occasion=occasion,
        started_at=at or T0 + timedelta(seconds=sequence),
        seconds=0.1,
        findings=findings,
        decision=decision or Decision(verdict=verdict, wanted="admit"),
        job=job,
        boot_id="b1",
        facts=NodeFacts(profile="hgx-h100", gpus=("GPU-1", "GPU-2"), gpu_model="H100", simulated=True),
    )


def batch(*reports: Report) -> Batch:
    """The reports as their agent hands them in."""
    return Batch(cluster=reports[0].cluster, node=reports[0].node, incarnation=reports[0].incarnation, reports=reports)
