"""Orders ride in the reply to our poll, are carried out once each, and are acknowledged in the next one."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from checks.wire import Occasion, Order
from daemon.agent.findings import Findings
from daemon.agent.judge import Judge
from daemon.agent.reporting import Reporter
from daemon.agent.schedule import Schedule
from daemon.plan import Instance
from daemon.remedy.hands import Hands

log = logging.getLogger(__name__)
ROUND_LIMIT = 30.0
KNOWN = 256


def named(instances: Sequence[Instance], names: Sequence[str]) -> list[Instance]:
    """The instances of the named checks, or the named instances; all when none is named; KeyError for the unknown."""
    if not names:
        return list(instances)
    for name in names:
        if not any(name in (i.name, i.check.name) for i in instances):
            raise KeyError(name)
    return [i for i in instances if i.name in names or i.check.name in names]


@dataclass(slots=True)
class Orders:
    """What the service asked of us, and what is done of it."""

    schedule: Schedule
    findings: Findings
    judge: Judge
    reporter: Reporter
    hands: Hands
    _known: OrderedDict[str, bool] = field(default_factory=OrderedDict)

    @property
    def done(self) -> tuple[str, ...]:
        """Orders carried out lately; naming one twice does no harm."""
        return tuple(i for i, done in self._known.items() if done)[-64:]

    async def carry_out(self, orders: Sequence[Order]) -> None:
        """Do what is new among ``orders``."""
        new = [o for o in orders if o.id not in self._known]
        for order in new:
            self._known[order.id] = False
        while len(self._known) > KNOWN:
            self._known.popitem(last=False)
        await asyncio.gather(*(self._one(order) for order in new))

    async def _one(self, order: Order) -> None:
        log.info("event=order id=%s kind=%s checks=%s", order.id, order.kind, ",".join(order.checks))
        note = f"order:{order.id}"
        # Nothing that lasts runs between jobs yet, so there is nothing to stop or to release.
        if order.kind in ("check", "verify"):
            try:
                instances = named(self.schedule.periodic, order.checks)
            except KeyError as error:
                self.reporter.send("manual", (), None, notes=(note, f"no check {error} is asked on this node"))
                instances = []
            if instances:
                await self.fresh(instances, note, occasion="burn-in" if order.deep else "manual")
        elif order.kind in ("reset-gpu", "run"):
            await self.hands.carry_out(order)
        self._known[order.id] = True

    async def fresh(self, instances: Sequence[Instance], *notes: str, occasion: Occasion = "manual") -> None:
        """Ask these now, and report what they say as a round of its own."""
        started = self.findings.clock()
        if self.schedule.held:
            # What is known is old: nobody shall take it for an answer.
            why = self.judge.paused or self.schedule.held
            self.reporter.send(occasion, (), None, notes=(*notes, f"nothing was asked: {why}"))
            return
        await self.schedule.refresh(instances, ROUND_LIMIT)
        found = self.findings.current({i.check.name for i in instances})
        decision = self.judge.decide(occasion, self.findings.current())
        seconds = self.findings.clock() - started
        self.reporter.send(occasion, found, decision, seconds=seconds, notes=notes)
