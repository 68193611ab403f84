"""What the parts of the controller share: one policy, one guard, one view of Slurm, one lock around every write."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, Literal, Protocol

import msgspec

from api.controller.fence import Fence, Fenced
from api.controller.ground import Ground
from api.controller.notices import Notices
from api.controller.operations import OperationBook
from api.controller.orders import Orders
from api.controller.pace import Pace
from api.controller.pen import Pen
from api.controller.quiet import QuietBook, why_paused
from api.controller.records import DrainRecord, Records
from api.controller.slurm_view import SlurmView
from api.controller.words import WordBook, why_accepted
from api.store.views import IncidentView, NodeRow, NodeView, ReportView
from checks.judge.guard import GuardLimits
from checks.judge.policy import Policy, PolicyStep, Rule
from checks.wire import Finding

log = logging.getLogger(__name__)
NAMED = 3  # nodes with one and the same trouble of ours that are told apart


class Memory(Protocol):
    """What the controller asks of the store."""

    def node(self, cluster: str, node: str) -> NodeView | None: ...
    def current_findings(self, cluster: str, node: str) -> tuple[Finding, ...]: ...
    def node_rows(self) -> list[NodeRow]: ...
    def all_failing(self, cluster: str) -> dict[str, tuple[Finding, ...]]: ...
    def unanswered(self, cluster: str) -> dict[str, int]: ...
    def recent_reports(self, cluster: str, node: str, *, limit: int = 20) -> list[ReportView]: ...
    def open_incident(self, cluster: str, node: str, code: str, target: str, message: str, kind: str) -> int: ...
    def close_incident(self, cluster: str, node: str, code: str, target: str, why: str) -> None: ...
    def audit(self, actor: str, action: str, subject: str, detail: str) -> None: ...
    def incidents(self, is_open: bool | None = None, *, limit: int = 100) -> list[IncidentView]: ...


class Wave(Protocol):
    """Whole looks at nodes that are owed before anything else may follow there."""

    async def want(self, nodes: Sequence[str], kind: str, why: str, actor: str = "controller") -> None:
        """Owe each node a look."""
        ...

    def first(self, node: str) -> datetime | None:
        """Since when hands are off no more while the look that is owed has not been answered."""
        ...


class Trying(Protocol):
    """Trials of drained nodes as jobs of ours."""

    async def begin(self, record: DrainRecord) -> None:
        """Try this node next."""
        ...


class ControllerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the controller works; times in seconds.

    ``automation`` off: everything is judged and shown, nothing is drained or resumed by itself.
    ``poll``: how often Slurm's node list is read as a whole. ``verify_rounds``: clean verifications in a row before a
    drained node goes back. ``fresh``: findings older than this never lead to a drain. ``belief``: how long a resume
    by a person is believed before the same fault may drain the node again, unless it breaks every job.
    ``lease_share``: the part of the guard's head-room that may be leased in advance; the rest stays for permits asked
    for at once, so small clusters have none. ``contest``: foreign resumes of one fault after which it is left alone.

    ``strike_half_life``, ``strike_limit``, ``strike_limit_node``: a drain is one strike, on probation two, and half of
    it a half-life later; at the limit for one code, or for all of a node's, only a person gives the node back. 2.2 is
    three drains within a week, 3.6 five; were faults chance (419 of 16,384 GPUs in 54 days in the Llama 3 training
    report, so 0.03 a week on a node with eight), three in a week would befall one node in some 300,000.
    ``probation``: how long a node is watched closer after it came back by verification, with a look at it, where it is
    idle, every ``probation_look``. ``retire_after``: how long Slurm may know no such node before its drain is closed.

    ``resume_kill_task_failed``: a node that Slurm itself drained with "Kill task failed" is resumed once nothing of the
    job is left there and ``verify_rounds`` looks were clean, at most ``kill_failed_hourly`` nodes an hour.
    ``annotate``: where our finding is put under our tag as long as somebody else holds the node out of service.
    ``annotate_jobs``: why an attempt was refused is put into the job's AdminComment.

    ``looks_at_once``: how many nodes are asked for a whole look at the same time when a maintenance ends;
    ``look_patience``: how long a node's findings wait for its look before they count as ever. ``burn_in_rounds`` and
    ``burn_in_seconds``: what a rule that asks for a burn-in wants: so many clean looks in a row, spread over that time.

    ``verify_by`` job: after its clean looks a node must also run a job of ours, in a reservation where no other can
    start: ``trial_command`` (``%n`` is the node), for ``trial_seconds`` at most, in ``trial_partition`` and with
    ``trial_gres`` where they are named. ``trial_user``: the account that jobs of ours are handed in as; the server's
    own where empty. ``trials_at_once``: how many nodes are tried at the same time.

    ``calls_per_second``: what automatic drains, resumes and permits may ask of slurmctld on average, at first two
    seconds' worth at once; a drain asks five times. The bulk read an interval comes on top.
    """

    cluster: str
    automation: bool = True
    poll: float = 10.0
    verify_rounds: int = 2
    verify_timeout: float = 120.0
    fresh: float = 900.0
    belief: float = 1800.0
    lease_seconds: float = 600.0
    lease_share: float = 0.25
    permit_seconds: float = 3.0
    contest: int = 3
    strike_half_life: float = 7 * 86400.0
    strike_limit: float = 2.2
    strike_limit_node: float = 3.6
    probation: float = 86400.0
    probation_look: float = 900.0
    retire_after: float = 7 * 86400.0
    resume_kill_task_failed: bool = False
    kill_failed_hourly: int = 4
    annotate: tuple[Literal["comment", "extra"], ...] = ()
    annotate_jobs: bool = False
    looks_at_once: int = 16
    look_patience: float = 600.0
    burn_in_seconds: float = 3600.0
    burn_in_rounds: int = 12
    verify_by: Literal["agent", "job"] = "agent"
    trial_command: tuple[str, ...] = ("/opt/nodevet/bin/nodevet", "check", "--json", "--only-fail")
    trial_user: str = ""
    trial_partition: str = ""
    trial_gres: str = ""
    trial_seconds: float = 600.0
    trials_at_once: int = 4
    calls_per_second: float = 10.0


@dataclass(slots=True)
class Core:
    """The shared parts; ``working`` says what is being done to a node by a remedy, so that nobody gives it back.

    ``fence`` says whether this server leads; every change of Slurm is made with a ``pen()``. ``lock`` makes the guard's
    count and the intent that follows one step; ``node_locks`` keep two hands of ours off one node. Who takes both takes
    the node's first. No call to Slurm is made under ``lock``. ``correlated``: when a code was last shown by too many
    nodes to be theirs.
    """

    settings: ControllerSettings
    store: Memory
    fence: Fence
    records: Records
    view: SlurmView
    policy: Policy
    guard: GuardLimits
    quiet: QuietBook
    words: WordBook
    operations: OperationBook
    orders: Orders = field(default_factory=Orders)
    clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
    working: Callable[[str], str] = lambda _: ""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    counts: dict[str, float] = field(default_factory=dict)
    correlated: dict[str, datetime] = field(default_factory=dict)
    node_locks: dict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    # Of a drain that is Slurm's own: what is known of it, and its way out.
    slurms_own: Callable[[str], tuple[str, str]] = lambda _: ("", "")
    notices: Notices = field(init=False)
    pace: Pace = field(init=False)
    ground: Ground = field(init=False)
    wave: Wave = field(init=False)
    trials: Trying = field(init=False)
    tried: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.ground = Ground(self.cluster, self.store, self.view)
        self.notices = Notices(self._opened, self._closed)
        self.pace = Pace(max(0.1, self.settings.calls_per_second))

    async def pen(self) -> Pen:
        """Take the right to change Slurm once, before the intent is written down; Fenced where another leads."""
        return Pen(self, await asyncio.to_thread(self.fence.held))

    def risk(self, node: str) -> str:
        """Whose word has the node used in spite of a fault, and until when; empty without such a word."""
        found = self.words.accepted(node, self.clock())
        return why_accepted(next(iter(found.values()))) if found else ""

    def boot_of(self, node: str) -> str:
        """The boot that the node's agent last spoke of, empty when it never did; reads the database."""
        view = self.store.node(self.cluster, node)
        return view.boot_id if view is not None else ""

    @property
    def cluster(self) -> str:
        """The one cluster this controller drains in."""
        return self.settings.cluster

    def paused(self, node: str) -> str | None:
        """Why automation keeps its hands off a node that a person paused, or None."""
        pause = self.quiet.paused(node, self.clock())
        return None if pause is None else why_paused(pause)

    def ticket(self, node: str) -> str:
        """The ticket under which the node is in repair, empty when it is not."""
        pause = self.quiet.paused(node, self.clock())
        return pause.ticket if pause is not None else ""

    def silenced(self, node: str) -> frozenset[str]:
        """The checks whose findings lead to nothing on this node, ``*`` for all of them."""
        state = self.view.states.get(node)
        return self.quiet.silenced(node, state.partitions if state else (), self.clock())

    def way_back(self, code: str) -> PolicyStep:
        """What brings a node back that was drained for this code."""
        rule = self.policy.codes.get(code) or Rule()
        return rule.resume or "verify"

    def gauge(self, name: str, value: float) -> None:
        """Set a value of /metrics."""
        self.counts[name] = value

    def gauges(self) -> dict[str, float]:
        """Counters so far and how things stand now, for /metrics."""
        age = self.view.age(self.clock())
        return {
            **self.counts,
            "slurm_nodes": float(len(self.view.states)),
            "slurm_age_seconds": -1.0 if age is None else age,
            "automation": float(self.settings.automation),
            "controller_leads": float(self.fence.epoch is not None),
        }

    def count(self, name: str) -> None:
        """Add one to a counter of /metrics."""
        self.counts[name] = self.counts.get(name, 0.0) + 1.0

    def incident(self, node: str, code: str, message: str, *, kind: str = "controller") -> None:
        """Open, or keep open, a problem that people must see."""
        self.notices.say(node, code, message, kind=kind)

    def incident_of_many(self, node: str, code: str, message: str) -> None:
        """Open a problem of one node among perhaps many: the first few by name, all others as one of the cluster."""
        if not self.notices.say_one_of(node, code, message, NAMED):
            self.incident("", code, f"more than {NAMED} nodes, such as {node}: {message}")

    def solved(self, node: str, code: str, why: str) -> None:
        """Close such a problem."""
        self.notices.over(node, code, why)

    def _opened(self, node: str, code: str, text: str, kind: str) -> None:
        self.store.open_incident(self.cluster, node, code, "node" if node else "controller", text, kind)

    def _closed(self, node: str, code: str, why: str) -> None:
        self.store.close_incident(self.cluster, node, code, "node" if node else "controller", why)

    async def spare(self, node: str, work: Coroutine[Any, Any, object]) -> bool:
        """Do work whose failure must not reach the work on other nodes; whether it went well."""
        try:
            await work
        except Fenced as error:
            # Whoever leads now does this work; ours is to keep still.
            self.count("fenced_total")
            log.warning("controller step fenced node=%s why=%s", node or "-", error)
            return False
        except Exception as error:
            log.exception("controller step failed node=%s", node or "-")
            text = f"{type(error).__name__}: {error}"
            with contextlib.suppress(Exception):
                # The database itself may be what fails; then the log has to do.
                await asyncio.to_thread(self.incident, node, "controller_error", text)
            return False
        if node and self.notices.said(node, "controller_error"):
            await asyncio.to_thread(self.solved, node, "controller_error", "a round went well")
        return True

    def audit(self, action: str, subject: str, detail: str, *, actor: str = "controller") -> None:
        """Keep who did what, for ever."""
        self.store.audit(actor, action, subject, detail)


def first_lines(values: Sequence[str], limit: int = 5) -> str:
    """The first few names and how many more there are."""
    shown = ", ".join(values[:limit])
    return shown if len(values) <= limit else f"{shown} and {len(values) - limit} more"
