"""What the routes ask of the controller, and the rows that it answers with.

Async methods and those marked "on the loop" run on the server's event loop; the others are called from worker
threads as well, so they only read what is replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from api.operation import OperationView
from api.remedy.port import Mends
from checks.wire import (
    GateAnswer,
    GateRequest,
    Lease,
    Limits,
    Order,
    PermitAnswer,
    PermitRequest,
    Quiet,
)  # fmt: skip
from slurm.state import NodeState

if TYPE_CHECKING:
    from api.service_port import ServicePort

OrderKind = Literal["check", "verify", "stop-testing", "release"]


class DrainRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a drain or resume would do, did, or refused to do on one node; ``why`` is for people."""

    cluster: str
    node: str
    outcome: Literal["planned", "done", "refused", "unchanged", "failed"]
    why: str = ""
    owner: str | None = None
    reason: str = ""
    state: str | None = None
    running_jobs: bool | None = None
    operation: int | None = None


class DrainView(msgspec.Struct, frozen=True, kw_only=True):
    """One drain we know of, and how it ends: every drain has an exit that is known and shown.

    ``beside``: our finding where the reason is somebody else's, what is left of a job, pauses, silences, risks.
    """

    cluster: str
    node: str
    owner: str
    reason: str = ""
    code: str | None = None
    token: str = ""
    since: datetime | None = None
    actor: str = ""
    state: str | None = None
    phase: str = ""
    exit: str = ""
    ticket: str = ""
    beside: tuple[str, ...] = ()


class PauseView(msgspec.Struct, frozen=True, kw_only=True):
    """A node that hands are off until a time, or, with a ``ticket``, in repair until a person ends that."""

    cluster: str
    node: str
    until: datetime
    reason: str
    actor: str
    created_at: datetime
    ticket: str = ""


class SilenceView(msgspec.Struct, frozen=True, kw_only=True):
    """Findings that lead to nothing until a time, though they are shown; what is empty means all."""

    id: int
    cluster: str
    check: str
    node: str
    partition: str
    until: datetime
    reason: str
    actor: str
    created_at: datetime


class RiskView(msgspec.Struct, frozen=True, kw_only=True):
    """A code that a person wants a node used in spite of, until a time."""

    id: int
    cluster: str
    node: str
    code: str
    until: datetime
    reason: str
    actor: str
    created_at: datetime


class OverrideView(msgspec.Struct, frozen=True, kw_only=True):
    """A guard that a person opened for one code, or for all where the code is empty, until a time."""

    id: int
    cluster: str
    code: str
    until: datetime
    reason: str
    actor: str
    created_at: datetime


class GuardView(msgspec.Struct, frozen=True, kw_only=True):
    """What automation may still do: counts of nodes beside their limits; ``closed``: nothing."""

    cluster: str
    closed: bool
    headroom: int
    nodes: int
    in_service: int
    floor: int
    out_by_us: int
    out_limit: int
    promised: int
    last_hour: int
    hour_limit: int
    groups: int
    block_size: int
    overrides: tuple[OverrideView, ...]


class DeskPort(Protocol):
    """Where people overrule automation, as the routes see it."""

    async def accept(self, nodes: str, seconds: float, reason: str, actor: str) -> list[DrainRow]:
        """Give nodes of ours back as they are, and drain them for nothing known of them for some seconds."""
        ...

    async def clear(self, nodes: str, reason: str, actor: str) -> list[DrainRow]:
        """Let automation drain these nodes again: contests are settled, accepted risks end."""
        ...

    def risks(self) -> list[RiskView]:
        """Every accepted risk in force."""
        ...

    def risk(self, cluster: str, node: str) -> str:
        """Whose word has this node used in spite of a fault, and until when; empty without such a word."""
        ...

    def guard(self) -> GuardView:
        """The guard's numbers now; reads the database."""
        ...

    async def override(self, code: str, seconds: float, reason: str, actor: str) -> OverrideView:
        """Lift the ceilings for a code, or for all, for a time."""
        ...

    async def end_override(self, actor: str) -> bool:
        """Close the guard again; whether it was open."""
        ...

    async def undo(self, number: int | None, actor: str, *, dry_run: bool) -> list[DrainRow]:
        """Undo an operation, by default the actor's last, where nodes still are as it left them; raises ValueError."""
        ...

    def operations(
        self, since: datetime | None, actor: str | None, before: int | None, limit: int
    ) -> list[OperationView]:
        """Operations without their nodes, the newest first; reads the database."""
        ...

    def operation(self, number: int) -> OperationView | None:
        """One operation with its nodes; reads the database."""
        ...


class ControllerPort(Mends, Protocol):
    """The one writer of automatic drains, as the routes see it."""

    @property
    def desk(self) -> DeskPort:
        """Where people overrule automation."""
        ...

    @property
    def service(self) -> ServicePort:
        """Where nodes stand between service and repair."""
        ...

    async def permit(self, request: PermitRequest) -> PermitAnswer:
        """Grant or deny the right to refuse once."""
        ...

    async def gate(self, request: GateRequest) -> GateAnswer:
        """Take a member's answer and, where it holds, wait for the others."""
        ...

    async def orders(self, cluster: str, node: str, wait: float) -> tuple[Order, ...]:
        """The node's open orders, waiting up to ``wait`` seconds for the first."""
        ...

    async def order(
        self, cluster: str, node: str, kind: OrderKind, *, actor: str, checks: tuple[str, ...] = ()
    ) -> Order:
        """Put an order down for a node and wake its poll."""
        ...

    def done(self, order_ids: tuple[str, ...]) -> None:
        """Forget orders that an agent has carried out (on the loop)."""
        ...

    def leases_for(self, cluster: str, node: str) -> tuple[Lease, ...]:
        """Leases to hand to a node in a heartbeat's reply (on the loop)."""
        ...

    def holds(self, node: str, permits: tuple[str, ...]) -> None:
        """A node says which leases it could use now (on the loop)."""
        ...

    def limits(self) -> Limits:
        """The running Slurm's limits as last read."""
        ...

    def slurm_state(self, node: str) -> NodeState | None:
        """What Slurm holds about a node as last read; None when not known."""
        ...

    def slurm_states(self) -> Mapping[str, NodeState]:
        """All nodes as last read; empty when Slurm has not answered."""
        ...

    async def preview(self, nodes: str, verb: Literal["drain", "resume"]) -> list[DrainRow]:
        """What ``verb`` would do to each node of a host list, changing nothing."""
        ...

    async def drain(self, nodes: str, reason: str, actor: str) -> list[DrainRow]:
        """Drain for a person."""
        ...

    async def resume(self, nodes: str, actor: str, verify: bool = True, force: bool = False) -> list[DrainRow]:
        """Give nodes back for a person, after verification unless told otherwise."""
        ...

    async def pause(self, nodes: str, seconds: float, reason: str, actor: str) -> list[DrainRow]:
        """Keep hands off these nodes for a time."""
        ...

    async def unpause(self, nodes: str, actor: str) -> list[DrainRow]:
        """End pauses, and have the nodes verified."""
        ...

    def pauses(self) -> list[PauseView]:
        """Every pause in force."""
        ...

    async def silence(
        self, *, check: str, nodes: str, partition: str, seconds: float, reason: str, actor: str
    ) -> list[SilenceView]:
        """Have findings lead to nothing for a time; what is empty means all."""
        ...

    async def unsilence(self, number: int, actor: str) -> bool:
        """End a silence; whether there was one."""
        ...

    def silences(self) -> list[SilenceView]:
        """Every silence in force."""
        ...

    def quiet(self, cluster: str, node: str) -> Quiet | None:
        """What people asked to rest on a node, for the reply to its poll."""
        ...

    def drains(self) -> list[DrainView]:
        """Every drain in force, whoever owns it."""
        ...

    def on_report(self, cluster: str, node: str) -> None:
        """A node's findings have changed: look at it soon (on the loop)."""
        ...

    def metrics(self) -> Mapping[str, float]:
        """Counters and gauges, e.g. ``permits_granted_total``, ``permits_denied_total``, ``guard_closed``,
        ``gate_expired_total``; names without the ``nodevet_`` prefix."""
        ...

    async def run(self) -> None:
        """Work until cancelled; started with the server."""
        ...
