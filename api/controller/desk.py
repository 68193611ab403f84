"""Where people overrule automation and each other: risks accepted, contests cleared, the guard opened, undoing."""

from __future__ import annotations

from datetime import datetime

from api.controller import opening, risk, undo
from api.controller.core import Core
from api.operation import OperationView
from api.ports import DrainRow, GuardView, OverrideView, RiskView


class Desk:
    """Implements api.ports.DeskPort."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def accept(self, nodes: str, seconds: float, reason: str, actor: str) -> list[DrainRow]:
        """Give nodes of ours back as they are, and drain them for nothing known of them for some seconds."""
        return await risk.accept(self._core, nodes, seconds, reason, actor)

    async def clear(self, nodes: str, reason: str, actor: str) -> list[DrainRow]:
        """Let automation drain these nodes again."""
        return await risk.clear(self._core, nodes, reason, actor)

    def guard(self) -> GuardView:
        """The guard's numbers now; reads the database."""
        return opening.shown(self._core)

    async def override(self, code: str, seconds: float, reason: str, actor: str) -> OverrideView:
        """Lift the ceilings for a code, or for all, for a time."""
        return await opening.override(self._core, code, seconds, reason, actor)

    async def end_override(self, actor: str) -> bool:
        """Close the guard again; whether it was open."""
        return await opening.end_override(self._core, actor)

    def risks(self) -> list[RiskView]:
        """Every accepted risk in force."""
        return self._core.words.risks(self._core.clock())

    def risk(self, cluster: str, node: str) -> str:
        """Whose word has this node used in spite of a fault, and until when."""
        return self._core.risk(node) if cluster == self._core.cluster else ""

    async def undo(self, number: int | None, actor: str, *, dry_run: bool) -> list[DrainRow]:
        """Undo an operation, by default the actor's last, where nodes still are as it left them."""
        return await undo.undo(self._core, number, actor, dry_run=dry_run)

    def operations(
        self, since: datetime | None, actor: str | None, before: int | None, limit: int
    ) -> list[OperationView]:
        """Operations without their nodes, the newest first; reads the database."""
        return self._core.operations.listing(since, actor, before, limit)

    def operation(self, number: int) -> OperationView | None:
        """One operation with its nodes; reads the database."""
        return self._core.operations.one(number)
