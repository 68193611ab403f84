"""The agent's hands on its node: only what its own configuration lets, at most once an order, nothing of ours held."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from checks.site.program import GRACE
from checks.wire import Order, Outcome, Remedied
from daemon.agent.judge import Judge
from daemon.agent.schedule import Schedule
from daemon.config import RemedySettings
from daemon.lanes.pool import LaneError, LanePool
from daemon.lanes.process import start_time
from daemon.remedy.ledger import Ledger

log = logging.getLogger(__name__)
LANE = "remedy"
RESET, RUN = "daemon.remedy.reset:reset", "daemon.remedy.script:run"
# Three short questions beside the reset itself, each with its own time and grace.
_ROUND = 3 * (15.0 + GRACE) + GRACE + 5.0
LONGEST = 900.0
EMPTY_STEP, EMPTY_STEPS = 0.25, 120
_OUTCOMES: tuple[Outcome, ...] = ("done", "busy", "refused", "failed", "hung")
Put = Callable[[str, bytes], Awaitable[bool]]


class Hands:
    """Carries out what disturbs the node, one order at a time."""

    def __init__(self, settings: RemedySettings, schedule: Schedule, pool: LanePool, judge: Judge, put: Put) -> None:
        self._settings, self._schedule, self._pool, self._judge, self._put = settings, schedule, pool, judge, put
        self._ledger = Ledger()
        self._one = asyncio.Lock()

    @property
    def allowed(self) -> tuple[str, ...]:
        """What this node's own configuration lets the service ask for."""
        reset = ("reset-gpu",) if self._settings.reset_gpu else ()
        return (*reset, *(f"run:{name}" for name in self._settings.run[:32]))

    @property
    def told(self) -> tuple[Remedied, ...]:
        """What became of the last orders."""
        return self._ledger.told

    def recall(self, document: bytes) -> None:
        """Take over what an earlier agent on this node wrote down."""
        self._ledger.recall(document)

    async def carry_out(self, order: Order) -> None:
        """Do it unless it was begun before, and write down what became of it."""
        async with self._one:
            if self._ledger.knows(order.id):
                return
            if why := self._refused(order):
                await self._settle(order, "refused", why)
                return
            self._ledger.settle(order.id, "running")
            if not await self._put("remedies", self._ledger.document):
                # What is not on disk could be begun again by the next agent.
                await self._settle(order, "refused", "it could not be written down first, so it was not begun")
                return
            log.warning("event=remedy order=%s kind=%s gpus=%s name=%s", order.id, order.kind, order.gpus, order.name)
            outcome, text = await self._held_still(order)
            await self._settle(order, outcome, text)

    def _refused(self, order: Order) -> str:
        wanted = order.kind if order.kind == "reset-gpu" else f"run:{order.name}"
        if wanted not in self.allowed:
            return f"{wanted} is not allowed on this node: [remedy] of its own configuration"
        if self._judge.paused:
            return f"hands off: {self._judge.paused}"
        pid, start = self._ledger.hung
        if pid and start_time(pid) == start:
            return f"an earlier program ({pid}) does not end"
        return ""

    async def _held_still(self, order: Order) -> tuple[Outcome, str]:
        """With no question under way and no worker that holds a device."""
        self._schedule.hold("remedy", f"{order.kind} is being carried out")
        try:
            await self._schedule.settled()
            for _ in range(EMPTY_STEPS):
                if self._pool.empty():
                    return await self._done(order)
                await asyncio.sleep(EMPTY_STEP)
            return "busy", f"a worker of ours still answered after {EMPTY_STEP * EMPTY_STEPS:g} s"
        finally:
            self._schedule.release("remedy")

    async def _done(self, order: Order) -> tuple[Outcome, str]:
        limit = min(max(order.limit, 1.0), LONGEST)
        common: dict[str, Any] = {"limit": limit}
        if order.kind == "reset-gpu":
            function = RESET
            common |= {"nvidia_smi": self._settings.nvidia_smi, "gpus": list(order.gpus)}
        else:
            function = RUN
            common |= {"directory": self._settings.directory, "name": order.name, "document": order.document}
        try:
            found = await self._pool.call(LANE, function, common, timeout=limit + _ROUND)
        except LaneError as error:
            return "lost", f"our own worker gave no answer: {error}"
        answer = found if isinstance(found, dict) else {}
        if isinstance(pid := answer.get("hung"), int) and pid:
            self._ledger.hung = (pid, start_time(pid))
        outcome: Outcome = next((o for o in _OUTCOMES if o == answer.get("outcome")), "lost")
        return outcome, str(answer.get("text", "our own worker gave no answer"))

    async def _settle(self, order: Order, outcome: Outcome, text: str) -> None:
        self._ledger.settle(order.id, outcome, text)
        log.warning("event=remedy_ended order=%s outcome=%s text=%r", order.id, outcome, text)
        await self._put("remedies", self._ledger.document)
