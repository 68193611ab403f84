"""Every instance is asked at its interval by one sleeper over one heap, on whole seconds, a node's all in one burst."""

from __future__ import annotations

import asyncio
import heapq
import logging
import math
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from checks.runner import Outcome
from checks.wire import JobAttempt
from daemon.plan import SELDOM, Instance

log = logging.getLogger(__name__)
SHORTEST = 1.0


class Asks(Protocol):
    """What the schedule needs of the lanes."""

    async def run(
        self, instance: Instance, job: JobAttempt | None = None, *, timeout: float | None = None, manual: bool = False
    ) -> Outcome: ...


@dataclass(order=True, slots=True)
class _Due:
    at: float
    order: int
    instance: Instance = field(compare=False)


class Schedule:
    """Asks between jobs; a question under way is joined, never asked twice at once."""

    def __init__(
        self,
        node: str,
        lanes: Asks,
        on_outcome: Callable[[Instance, Outcome], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node, self._lanes, self._on_outcome, self._clock = node, lanes, on_outcome, clock
        self._heap: list[_Due] = []
        self._order = 0
        self._running: dict[str, asyncio.Task[None]] = {}
        self._wake = asyncio.Event()
        self.instances: tuple[Instance, ...] = ()
        self._holds: dict[str, str] = {}

    def replace(self, instances: Sequence[Instance]) -> None:
        """Ask these from now on, the first time at once."""
        self.instances = tuple(instances)
        self._heap = []
        for instance in self.periodic:
            self._push(instance, self._clock())
        self._wake.set()

    @property
    def periodic(self) -> tuple[Instance, ...]:
        """What is asked between jobs."""
        return tuple(i for i in self.instances if not i.hook_only and not i.by_order)

    @property
    def cheap(self) -> tuple[Instance, ...]:
        """What may be asked out of turn: about this node, harmless beside a job, and not of what changes rarely."""
        asked = (i for i in self.periodic if min(i.interval, i.check.interval) < SELDOM)
        return tuple(i for i in asked if i.check.cost == "passive" and i.check.scope == "node")

    async def run(self) -> None:
        """Sleep until something is due, ask it, and so on for ever."""
        while True:
            now = self._clock()
            while not self.held and self._heap and self._heap[0].at <= now:
                instance = heapq.heappop(self._heap).instance
                self._ask(instance)
                self._push(instance, next_due(self._node, instance, now))
            self._wake.clear()
            left = self._heap[0].at - now if self._heap and not self.held else None
            try:
                await asyncio.wait_for(self._wake.wait(), left)
            except asyncio.TimeoutError:
                continue

    def kick(self, instances: Iterable[Instance]) -> None:
        """Ask these now, out of turn."""
        for instance in () if self.held else instances:
            self._ask(instance)

    @property
    def held(self) -> str:
        """Why nothing is asked, empty when something is."""
        return next(iter(self._holds.values()), "")

    def hold(self, who: str = "pause", why: str = "paused") -> None:
        """Ask nothing from now on, by whomever it is wanted."""
        self._holds[who] = why

    def release(self, who: str = "pause") -> None:
        """Ask again, everything at once for the first time, unless somebody else holds still."""
        if self._holds.pop(who, None) is not None and not self._holds:
            self.replace(self.instances)

    async def settled(self) -> None:
        """Wait for the questions that are under way; each ends by its own time-out."""
        if self._running:
            await asyncio.wait(set(self._running.values()))

    async def refresh(self, instances: Sequence[Instance], deadline: float) -> None:
        """Ask these now and wait for their answers, at most ``deadline`` seconds."""
        tasks = [] if self.held else [self._ask(instance) for instance in instances]
        if tasks:
            await asyncio.wait(tasks, timeout=max(0.0, deadline))

    def _ask(self, instance: Instance) -> asyncio.Task[None]:
        task = self._running.get(instance.name)
        if task is None:
            task = asyncio.ensure_future(self._answer(instance))
            self._running[instance.name] = task
        return task

    async def _answer(self, instance: Instance) -> None:
        try:
            outcome = await self._lanes.run(instance)
            self._on_outcome(instance, outcome)
        except Exception:
            log.exception("event=round_failed instance=%r", instance.name)
        finally:
            self._running.pop(instance.name, None)

    def _push(self, instance: Instance, at: float) -> None:
        self._order += 1
        heapq.heappush(self._heap, _Due(at, self._order, instance))

    async def close(self) -> None:
        """Ask nothing more."""
        self._heap = []
        for task in list(self._running.values()):
            task.cancel()


def next_due(node: str, instance: Instance, now: float) -> float:
    """The next whole second of the node's place in the instance's interval, always at least a second away.

    The place is told by the node alone: the nodes of a cluster do not all look in the same second, while what one node
    asks falls together as often as it can. A job is disturbed by one short burst, and processes wake seldom.
    """
    interval = max(SHORTEST, instance.interval)
    place = zlib.crc32(node.encode()) % max(1, int(interval))
    at = math.floor((now - place) / interval) * interval + place + interval
    at = math.ceil(at)
    return at if at - now >= SHORTEST else at + interval
