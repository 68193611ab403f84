"""One lane: one worker, one question at a time, and after a missed deadline silence until it comes back or ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from daemon.lanes.forker import Forker, ForkError, Garbled, Worker
from daemon.lanes.memory import Stuck
from daemon.lanes.watch import Sight
from daemon.lanes.wire import Reply, Request

FIRST_BACKOFF = 1.0
LONGEST_BACKOFF = 60.0
# Two hooks of the same second look at the same moment of a hang; only a later look is a second observation.
OBSERVATION_GAP = 5.0
# A call that still moves (a driver that takes long to load its GPUs) is not called hung before this many seconds.
MOVING_LIMIT = 60.0
TERMINATE_AFTER = 120.0
QUEUE_LIMIT = 64
ENDING = 0.5


class Busy(Exception):
    """Earlier questions were still being answered."""


class Broken(Exception):
    """The worker ended, garbled its reply or could not be started; the text says how."""


@dataclass(slots=True)
class Hang:
    """A worker that did not come back; ``worker`` is None when an earlier agent left it."""

    stuck: Stuck
    since: float
    worker: Worker | None = None
    observations: int = 0
    looked: float = float("-inf")
    sight: Sight | None = None


class Hung(Exception):
    """The worker is stuck in an earlier or this question."""

    def __init__(self, hang: Hang) -> None:
        super().__init__(hang.stuck.lane)
        self.hang = hang


class Keeper(Protocol):
    """What a lane needs of its pool."""

    async def look(self, stuck: Stuck) -> Sight | None: ...
    def hung(self, hang: Hang) -> None: ...
    def recovered(self, hang: Hang) -> None: ...


@dataclass(slots=True)
class Lane:
    """The state of one lane in the agent."""

    name: str
    forker: Forker
    keeper: Keeper
    time: Callable[[], float]
    hang: Hang | None = None
    shortest: float = float("inf")
    applying: set[str] = field(default_factory=set)
    _worker: Worker | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _waiting: int = 0
    _backoff: float = 0.0
    _not_before: float = 0.0
    _observations: int = 0
    _timer: asyncio.TimerHandle | None = None
    _reading: asyncio.Task[Reply] | None = None

    async def ask(self, request: Request, *, limit: float, patience: float) -> Reply:
        """The reply within ``limit`` seconds of the worker taking the question; raises Busy, Broken or Hung.

        ``patience`` bounds the wait for earlier questions: that wait is never the tested thing's fault.
        """
        if self._waiting >= QUEUE_LIMIT:
            raise Busy
        self._waiting += 1
        try:
            await asyncio.wait_for(self._lock.acquire(), patience)
        except asyncio.TimeoutError:
            if self.hang:
                await self.observe()
                raise Hung(self.hang) from None
            raise Busy from None
        finally:
            self._waiting -= 1
        try:
            return await self._ask(request, limit)
        finally:
            self._lock.release()

    async def _ask(self, request: Request, limit: float) -> Reply:
        if self.hang is not None:
            await self.observe()
        if self.hang is not None:
            raise Hung(self.hang)
        worker = await self._ready_worker()
        self._reading = reading = asyncio.ensure_future(worker.receive(request))
        reading.add_done_callback(_seen)
        worker.send(request)
        done, _ = await asyncio.wait({reading}, timeout=limit)
        if not done:
            raise await self._wedge(worker, reading, request, limit)
        try:
            reply = reading.result()
        except (EOFError, OSError, Garbled) as error:
            raise Broken(await self._broken(worker, error, request)) from error
        self._backoff, self._observations = 0.0, 0
        return reply

    async def _ready_worker(self) -> Worker:
        if self._worker is not None and self._worker.reader.at_eof():
            # Its socket tells of its end a moment before the zygote does.
            await asyncio.wait({self._worker.ended}, timeout=ENDING)
        if self._worker is not None and not self._worker.ended.done():
            if self._worker.reader.at_eof():
                raise Broken(f"worker {self._worker.pid} closed its end and has not ended yet")
            if not self._worker.writer.is_closing():
                return self._worker
            raise Broken(f"worker {self._worker.pid} was given up and has not ended yet")
        if self._worker is not None:
            self._worker.leave()
            self._worker = None
        if (left := self._not_before - self.time()) > 0:
            raise Broken(f"a new worker is started in {left:.0f} s")
        try:
            self._worker = await self.forker.fork(self.name)
        except ForkError as error:
            self._delay()
            raise Broken(f"no worker: {error}") from error
        return self._worker

    async def _broken(self, worker: Worker, error: Exception, request: Request) -> str:
        """Give the worker up; no other is started while it lives."""
        worker.leave()
        self._delay()
        if isinstance(error, Garbled):
            worker.terminate()
            return f"worker {worker.pid} on {request.name}: {error}"
        await asyncio.wait({worker.ended}, timeout=1.0)
        return f"worker {worker.pid} ended during {request.name}{_how(worker)}"

    def _delay(self) -> None:
        self._backoff = min(self._backoff * 2 or FIRST_BACKOFF, LONGEST_BACKOFF)
        self._not_before = self.time() + self._backoff

    async def _wedge(self, worker: Worker, reading: asyncio.Task[Reply], request: Request, limit: float) -> Hung:
        stuck = Stuck(lane=self.name, pid=worker.pid, start=worker.start, check=request.name)
        self.hang = hang = Hang(stuck, self.time() - limit, worker, self._observations)
        reading.add_done_callback(lambda done: self._came_back(hang, done))
        self._timer = asyncio.get_running_loop().call_later(TERMINATE_AFTER, worker.terminate)
        self.keeper.hung(hang)
        await self.observe()
        return Hung(hang)

    def _came_back(self, hang: Hang, reading: asyncio.Task[Reply]) -> None:
        """The stuck worker answered late, or ended: the lane is free again."""
        if self._timer:
            self._timer.cancel()
        if reading.cancelled():
            return
        if reading.exception() is None:
            self._observations = 0
        elif hang.worker is not None:
            hang.worker.leave()
            if isinstance(reading.exception(), Garbled):
                hang.worker.terminate()
        self._free(hang)

    def _free(self, hang: Hang) -> None:
        if self.hang is hang:
            self.hang = None
            self.keeper.recovered(hang)

    async def observe(self) -> None:
        """Look at the stuck worker once; looks close together count as one."""
        hang = self.hang
        if hang is None or self.time() - hang.looked < OBSERVATION_GAP:
            return
        hang.looked = self.time()
        before, hang.sight = hang.sight, await self.keeper.look(hang.stuck)
        moved = before is not None and hang.sight is not None and before.switches != hang.sight.switches
        if not moved or self.time() - hang.since > MOVING_LIMIT:
            hang.observations += 1
            self._observations = hang.observations
        if hang.worker is None and hang.sight is not None and not hang.sight.alive:
            self._free(hang)

    def applies(self, instance: str, does: bool) -> None:
        """Note whether what an instance asks applies to this node."""
        (self.applying.add if does else self.applying.discard)(instance)

    def rest(self) -> None:
        """Let an idle worker go, for a lane that is needed once in a while; the next question has a new one."""
        if self._worker and not (self.hang or self._waiting or self._lock.locked()):
            self._worker.leave()
            self._worker = None

    @property
    def idle(self) -> bool:
        """Whether no worker is left that could be let go."""
        return self._worker is None or self.hang is not None

    def close(self) -> None:
        """Let the worker go; a stuck one is asked to end and never waited for."""
        if self._timer:
            self._timer.cancel()
        if self._reading and not self._reading.done():
            self._reading.cancel()
        for worker in {id(w): w for w in (self._worker, self.hang.worker if self.hang else None) if w}.values():
            worker.leave()
            worker.terminate()


def _seen(reading: asyncio.Task[Reply]) -> None:
    """Take note of how it ended, also where nobody asks any more."""
    if not reading.cancelled():
        reading.exception()


def _how(worker: Worker) -> str:
    if not worker.ended.done():
        return ""
    code = os.waitstatus_to_exitcode(worker.ended.result())
    return f" by signal {-code}" if code < 0 else f" with status {code}"
