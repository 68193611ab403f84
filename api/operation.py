"""What a person did to a list of nodes in one go, as it goes out."""

from __future__ import annotations

from datetime import datetime

import msgspec


class OperationNode(msgspec.Struct, frozen=True, kw_only=True):
    """What an operation did on one node; ``before``: what stood there, ``drain``: our record that it made or ended."""

    node: str
    outcome: str
    why: str
    before: str
    drain: int | None = None


class OperationView(msgspec.Struct, frozen=True, kw_only=True):
    """One drain, resume or undo of a list of nodes; ``counts`` by outcome, ``items`` only where one is asked for."""

    id: int
    cluster: str
    actor: str
    verb: str
    nodes: str
    reason: str
    at: datetime
    undoes: int | None
    undone_by: int | None
    counts: dict[str, int]
    items: tuple[OperationNode, ...] = ()
