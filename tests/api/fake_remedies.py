"""Remedies that remember what they were asked, and answer at once."""

from __future__ import annotations

from api.remedy.port import RemediesView, RemedyMode, RemedyRow, RemedyWait
from checks.wire import PollRequest


class FakeRemedies:
    """Remembers who wanted what done to which node."""

    def __init__(self) -> None:
        self.heards: list[PollRequest] = []
        self.asked: list[tuple[object, ...]] = []

    def heard(self, request: PollRequest) -> None:
        self.heards.append(request)

    async def ask(
        self, node: str, action: str, gpus: tuple[str, ...], actor: str, *, dry_run: bool = False
    ) -> RemedyRow:
        self.asked.append((node, action, gpus, actor, dry_run))
        return RemedyRow(node=node, action=action, outcome="would" if dry_run else "planned", why="it may", id=4)

    async def cancel(self, number: int, actor: str) -> bool:
        self.asked.append(("cancel", number, actor))
        return number < 8

    def listing(self, node: str | None = None, *, limit: int = 200) -> RemediesView:
        wait = RemedyWait(node=node or "n2", action="reboot", codes=("gpu_lost",), why="reboot is switched off")
        return RemediesView(items=[], waiting=[wait], modes=[RemedyMode(action="reboot", mode="off")])
