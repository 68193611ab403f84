"""What the routes ask about remedies, and what they are answered."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Protocol

import msgspec

from checks.wire import PollRequest


class RemedyView(msgspec.Struct, frozen=True, kw_only=True):
    """One remedy from plan to end; ``codes`` empty: a person asked for it, ``gpus`` empty: all, or none meant."""

    id: int
    cluster: str
    node: str
    action: str
    codes: tuple[str, ...]
    gpus: tuple[str, ...]
    actor: str
    automatic: bool
    state: str
    why: str
    created_at: datetime
    started_at: datetime | None
    changed_at: datetime


class RemedyWait(msgspec.Struct, frozen=True, kw_only=True):
    """A drained node of ours that nothing is being done to, and why not; ``action`` empty: there is none."""

    node: str
    action: str
    codes: tuple[str, ...]
    why: str


class RemedyMode(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an action is off, only written down, or on."""

    action: str
    mode: str


class RemediesView(msgspec.Struct, frozen=True, kw_only=True):
    """What was done, what waits, and what may be done at all."""

    items: list[RemedyView]
    waiting: list[RemedyWait]
    modes: list[RemedyMode]


class RemedyRow(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of a person's wish; ``id`` where it was written down."""

    node: str
    action: str
    outcome: Literal["planned", "would", "refused"]
    why: str
    id: int | None = None


class RemedyPort(Protocol):
    """Where drained nodes are mended, as the routes see it."""

    def heard(self, request: PollRequest) -> None:
        """An agent said what it may do and what it has done (on the loop)."""
        ...

    async def ask(
        self, node: str, action: str, gpus: tuple[str, ...], actor: str, *, dry_run: bool = False
    ) -> RemedyRow:
        """Have a remedy carried out for a person, or say why not."""
        ...

    async def cancel(self, number: int, actor: str) -> bool:
        """Take back one that has not begun; whether it could be."""
        ...

    def listing(self, node: str | None = None, *, limit: int = 200) -> RemediesView:
        """What was done, what waits, and what may be done at all; reads the database."""
        ...


class Mends(Protocol):
    """Who has such a place."""

    @property
    def remedy(self) -> RemedyPort:
        """Where drained nodes are mended."""
        ...
