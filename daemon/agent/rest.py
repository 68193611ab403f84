"""While a node is paused nothing is asked, no worker holds a device or a mount, and every hook exits 0."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import datetime, timezone

import msgspec

from checks.wire import Quiet, clean
from daemon.agent.judge import Judge
from daemon.agent.loose import Loose
from daemon.agent.schedule import Schedule
from daemon.lanes.pool import LanePool

log = logging.getLogger(__name__)
LONGEST = 32 * 86400.0
EMPTY_STEP, EMPTY_STEPS = 0.5, 120


class Rest:
    """What people asked to rest on this node; a pause ends by itself, also while the central service is away.

    To be used inside the running loop. ``changed`` is called when a pause begins, moves or ends.
    """

    def __init__(self, schedule: Schedule, pool: LanePool, judge: Judge, changed: Callable[[], None]) -> None:
        self._schedule, self._pool, self._judge, self._changed = schedule, pool, judge, changed
        self._ends = float("-inf")
        self._told = Quiet()
        self._timer: asyncio.TimerHandle | None = None
        self._loose = Loose()

    @property
    def paused(self) -> str:
        """Why hands are off, empty when they are not."""
        return self._judge.paused

    @property
    def document(self) -> bytes:
        """What the next agent on this node must know."""
        return msgspec.json.encode(self._told)

    def take(self, quiet: Quiet | None) -> None:
        """Go by what the central service says now; None says nothing."""
        if quiet is None:
            return
        self._judge.silenced = frozenset(quiet.silenced)
        if 0 < quiet.paused <= LONGEST:
            self._begin(quiet)
        elif self.paused:
            self._end("ended by a person")

    def recall(self, document: bytes, now: datetime) -> None:
        """Go on with what an earlier agent was told, for as long as it still lasts."""
        try:
            told = msgspec.json.decode(document, type=Quiet)
        except msgspec.MsgspecError:
            return
        if told.until is not None and told.until.tzinfo is not None:
            self.take(msgspec.structs.replace(told, paused=(told.until - now).total_seconds()))

    def _begin(self, quiet: Quiet) -> None:
        ends = time.monotonic() + quiet.paused
        why = clean(f"paused by {quiet.actor} until {_when(quiet.until)}: {quiet.reason}", 300)
        if abs(ends - self._ends) < 2.0 and why == self.paused:
            return
        log.warning("event=paused seconds=%.0f why=%r", quiet.paused, why)
        self._ends, self._told, self._judge.paused = ends, quiet, why
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(quiet.paused, self._end, "its time is over")
        self._schedule.hold()
        self._loose.spawn(self._empty())
        self._changed()

    async def _empty(self) -> None:
        """Let go of devices and mounts, once the questions under way have been answered."""
        await self._schedule.settled()
        for _ in range(EMPTY_STEPS):
            if not self._schedule.held or self._pool.empty():
                return
            await asyncio.sleep(EMPTY_STEP)
        log.error("event=lanes_not_empty seconds=%g", EMPTY_STEP * EMPTY_STEPS)

    def _end(self, why: str) -> None:
        log.warning("event=pause_ended why=%r", why)
        if self._timer is not None:
            self._timer.cancel()
        self._ends, self._told, self._judge.paused = float("-inf"), Quiet(), ""
        self._schedule.release()
        self._changed()


def _when(until: datetime | None) -> str:
    return f"{until.astimezone(timezone.utc):%Y-%m-%d %H:%M} UTC" if until is not None else "further notice"
