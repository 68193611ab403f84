"""What the routes ask about where nodes stand, and the rows that they get."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, Protocol, get_args

import msgspec

from api.ports import DrainRow
from checks.wire import Scalar

ServiceState = Literal[
    "in_service", "suspect", "draining", "drained", "repairing", "verifying", "probation", "held", "retired"
]
STATES: tuple[ServiceState, ...] = get_args(ServiceState)


class StrikeView(msgspec.Struct, frozen=True, kw_only=True):
    """How a node stands with its earlier drains: at ``limit`` only a person gives it back; ``score`` halves in time."""

    what: str
    drains: int
    score: float
    limit: float


class MoveView(msgspec.Struct, frozen=True, kw_only=True):
    """One move of a node from one state to another; ``old`` is empty at first sight."""

    id: int
    cluster: str
    node: str
    old: str
    new: str
    why: str
    evidence: dict[str, Scalar]
    at: datetime


class ServiceView(msgspec.Struct, frozen=True, kw_only=True):
    """Where a node stands, since when, how we know, and in one sentence what brings it back."""

    cluster: str
    node: str
    state: ServiceState
    since: datetime
    why: str
    evidence: dict[str, Scalar]
    way: str = ""
    probation_until: datetime | None = None
    flapping: str = ""
    strikes: tuple[StrikeView, ...] = ()
    moves: tuple[MoveView, ...] = ()


class LookView(msgspec.Struct, frozen=True, kw_only=True):
    """A whole look at a node that was asked for, and what came of it."""

    cluster: str
    node: str
    state: Literal["waiting", "asked", "clean", "bad", "silent"]
    why: str
    actor: str
    wanted_at: datetime
    done_at: datetime | None = None
    detail: str = ""


class PartView(msgspec.Struct, frozen=True, kw_only=True):
    """One part and the slot that it stood in; ``until`` is None while it stands there."""

    cluster: str
    node: str
    kind: str
    slot: str
    uuid: str
    serial: str
    model: str
    since: datetime
    until: datetime | None


class SwapView(msgspec.Struct, frozen=True, kw_only=True):
    """A part that took another's place, or came from elsewhere.

    ``drain``: for what the node was drained then; ``verified``: whether the node has been since.
    """

    cluster: str
    node: str
    at: datetime
    old: PartView | None
    new: PartView
    drain: str
    drained_at: datetime | None
    verified: Literal["verified", "pending", "unverified", "failed"]
    came_from: str


class ServicePort(Protocol):
    """Where nodes stand between service and repair, as the routes see it."""

    def states(self) -> Mapping[str, ServiceState]:
        """Every node's state as last written."""
        ...

    def of(self, cluster: str, node: str) -> ServiceView | None:
        """All that is known of where one node stands; reads the database."""
        ...

    def watched(self) -> list[ServiceView]:
        """Nodes on probation and nodes held for flapping; reads the database."""
        ...

    def moves(self, cluster: str, node: str | None, before: int | None, limit: int) -> list[MoveView]:
        """Moves of one node or of all, the newest first; reads the database."""
        ...

    def looks(self) -> list[LookView]:
        """The last look that was asked for of each node; reads the database."""
        ...

    def parts(self, cluster: str, node: str) -> list[PartView]:
        """The parts of a node with their history; reads the database."""
        ...

    def swaps(self, seconds: float) -> list[SwapView]:
        """Parts that were swapped or moved within the last ``seconds``, the newest first; reads the database."""
        ...

    async def repair(self, nodes: str, ticket: str, reason: str, actor: str) -> list[DrainRow]:
        """Keep hands off nodes that are out of service until a person says that they are ready."""
        ...
