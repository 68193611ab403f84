"""The pool asks checks and functions in their lanes, and neither raises for a lane's trouble nor blocks the loop."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec

from checks import Finding
from checks.runner import Outcome
from checks.wire import JobAttempt
from daemon.lanes.codes import LANE_BROKEN, LANE_BUSY, LANE_SLOW
from daemon.lanes.forker import Forker
from daemon.lanes.hang import judged
from daemon.lanes.keepsakes import Keepsakes
from daemon.lanes.lane import Broken, Busy, Hang, Hung, Lane
from daemon.lanes.memory import Stuck
from daemon.lanes.watch import Sight, sight
from daemon.lanes.wire import Reply, Request
from daemon.lanes.zygote import Zygote
from daemon.plan import SELDOM, Instance

CONTROL = "control"
MEMORY = "memory"
LOOK_LIMIT = 1.0
# A lane in which nothing applies to this node, asked this seldom, holds no worker; seconds.
SKIPPED_SELDOM = 120.0
MEMORY_LIMIT = 1.5


class LaneError(Exception):
    """A function called in a lane gave no value; the text says why."""


def utc_now() -> datetime:
    """The wall clock, UTC aware."""
    return datetime.now(timezone.utc)


class LanePool:
    """All lanes of one agent; to be made inside the running loop.

    ``state_dir`` keeps what must survive a restart (None: nothing is kept); only the pool that ``remembers`` keeps what
    checks ask it to, as the agent does and a command beside it does not. ``lost`` is set when the zygote has ended:
    the agent must restart to have lanes again.
    """

    def __init__(
        self,
        zygote: Zygote,
        *,
        state_dir: Path | None = None,
        remembers: bool = False,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.keepsakes = Keepsakes(time.monotonic, self._write_down)
        self._remembers = remembers
        self._forker = Forker(zygote)
        self._clock = clock
        self._directory = str(state_dir / "lanes") if state_dir else None
        self._lanes: dict[str, Lane] = {}
        self._ids = itertools.count(1)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._recalled: asyncio.Task[None] | None = None

    @property
    def lost(self) -> asyncio.Event:
        """Set when the zygote has ended."""
        return self._forker.lost

    @property
    def trouble(self) -> str:
        """What could not be imported into the lanes, empty when all could."""
        return self._forker.trouble

    async def run(
        self, instance: Instance, job: JobAttempt | None = None, *, timeout: float | None = None, manual: bool = False
    ) -> Outcome:
        """Ask one check; within ``timeout`` seconds there is an outcome, if need be unknown/self.

        The check itself always has its own time-out: when ``timeout`` is shorter, the question goes on without us.
        """
        started = time.monotonic()
        task = self._spawn(self._answer(instance, job, timeout, manual))
        done, _ = await asyncio.wait({task}, timeout=timeout)
        seconds = time.monotonic() - started
        if not done:
            return self._outcome(instance, LANE_SLOW(instance.target, lane=instance.lane, budget=timeout), seconds)
        answer: Outcome | Finding = task.result()
        if isinstance(answer, Finding):
            return self._outcome(instance, answer, seconds)
        return answer

    async def run_many(
        self,
        instances: Sequence[Instance],
        job: JobAttempt | None = None,
        deadline: float | None = None,
        *,
        manual: bool = False,
    ) -> list[Outcome]:
        """Ask several checks at once, each in its lane; after ``deadline`` seconds the missing ones are unknown."""
        asked = (self.run(i, job, timeout=deadline, manual=manual) for i in instances)
        return list(await asyncio.gather(*asked))

    async def call(
        self, lane: str, function: str, arguments: Mapping[str, object] | None = None, *, timeout: float
    ) -> object:
        """Call our own ``module:function(host, **arguments)`` in a lane; raises LaneError. The value is plain data."""
        request = Request(id=next(self._ids), kind="call", name=function, options=dict(arguments or {}))
        try:
            # A caller that gives up must not leave the lane with half a conversation.
            asking = self._spawn(self._lane(lane).ask(request, limit=timeout, patience=timeout))
            reply: Reply = await asyncio.shield(asking)
        except Busy:
            raise LaneError(f"lane {lane} was busy for {timeout:g} s") from None
        except Hung as hung:
            raise LaneError(f"lane {lane} does not come back from {hung.hang.stuck.check}") from None
        except Broken as broken:
            raise LaneError(f"lane {lane}: {broken}") from broken
        if reply.error:
            raise LaneError(f"{function}: {reply.error}")
        return reply.value

    def wedged(self) -> tuple[str, ...]:
        """Names of the lanes whose worker does not come back."""
        return tuple(sorted(name for name, lane in self._lanes.items() if lane.hang is not None))

    def rest(self, name: str) -> None:
        """Let the worker of a lane go that is not needed for a while; one that is answering stays."""
        self._lane(name).rest()

    def empty(self) -> bool:
        """Let every idle worker go, and with it what it had open; False while one is still answering.

        A wedged worker cannot be let go, so it is not waited for.
        """
        for lane in self._lanes.values():
            lane.rest()
        return all(lane.idle for lane in self._lanes.values())

    async def close(self) -> None:
        """End the lanes and the zygote; a stuck worker is asked to end and never waited for."""
        if self._writes and self.keepsakes.unwritten:
            await self._in_memory("keep", {"kept": dict(self.keepsakes.kept)})
        for task in self._tasks:
            task.cancel()
        for lane in self._lanes.values():
            lane.close()
        self._forker.close()
        for _ in range(50):
            if self._forker.zygote.reap():
                return
            await asyncio.sleep(0.01)

    async def start(self) -> None:
        """Recall workers that an earlier agent left stuck; done by the first question when not called."""
        if self._recalled is None:
            self._recalled = self._spawn(self._recall())
        await asyncio.shield(self._recalled)

    async def look(self, stuck: Stuck) -> Sight | None:
        """How a stuck worker looks to the control lane; None when that lane does not answer either."""
        if stuck.lane == CONTROL:
            return None
        arguments = {"pid": stuck.pid, "start": stuck.start}
        try:
            return sight(await self.call(CONTROL, "daemon.lanes.watch:look", arguments, timeout=LOOK_LIMIT))
        except LaneError:
            return None

    def hung(self, hang: Hang) -> None:
        """Write a stuck worker down, in a lane of its own: the disk may be what hangs."""
        record = msgspec.structs.replace(hang.stuck, since=self._clock().timestamp())
        self._keep(hang.stuck, "remember", {"stuck": msgspec.to_builtins(record)})

    def recovered(self, hang: Hang) -> None:
        """Forget a worker that came back or ended."""
        self._keep(hang.stuck, "forget", {"pid": hang.stuck.pid, "start": hang.stuck.start})

    def _keep(self, stuck: Stuck, verb: str, arguments: dict[str, object]) -> None:
        if self._directory is not None and stuck.lane not in (MEMORY, CONTROL) and not self.lost.is_set():
            self._spawn(self._in_memory(verb, arguments))

    async def _in_memory(self, verb: str, arguments: dict[str, object]) -> object:
        arguments = {"directory": self._directory, **arguments}
        try:
            return await self.call(MEMORY, f"daemon.lanes.memory:{verb}", arguments, timeout=MEMORY_LIMIT)
        except LaneError:
            return None
        finally:
            self._lane(MEMORY).rest()

    async def _recall(self) -> None:
        if self._directory is None:
            return
        found = await self._in_memory("recall", {})
        for record in msgspec.convert(found, list[Stuck]) if isinstance(found, list) else []:
            self._lane(record.lane).hang = Hang(record, time.monotonic(), None, observations=1)
        kept = await self._in_memory("kept", {}) if self._remembers else None
        if isinstance(kept, dict):
            self.keepsakes.kept.update(kept)

    def _write_down(self, kept: dict[str, dict[str, object]]) -> None:
        if self._writes:
            self._spawn(self._in_memory("keep", {"kept": dict(kept)}))

    @property
    def _writes(self) -> bool:
        return self._remembers and self._directory is not None and not self.lost.is_set()

    async def _answer(
        self, instance: Instance, job: JobAttempt | None, timeout: float | None, manual: bool
    ) -> Outcome | Finding:
        await self.start()
        lane, name, target = self._lane(instance.lane), instance.check.name, instance.target
        request = Request(
            id=next(self._ids),
            name=name,
            options=dict(instance.options),
            job=job,
            manual=manual,
            memory=self.keepsakes.of(instance.name),
        )
        # A round has all checks of a lane wait for each other, and none of its callers.
        patience = timeout if timeout is not None else max(instance.timeout, instance.interval / 2, 1.0)
        lane.shortest = min(lane.shortest, instance.interval)
        try:
            reply = await lane.ask(request, limit=instance.timeout, patience=patience)
        except Busy:
            return LANE_BUSY(target, lane=lane.name, waited=patience)
        except Hung as hung:
            return judged(hung.hang, target, time.monotonic())
        except Broken as broken:
            return LANE_BROKEN(target, lane=lane.name, why=str(broken))
        lane.applies(instance.name, reply.outcome is None or any(f.status != "skipped" for f in reply.outcome.findings))
        if lane.shortest >= SELDOM or (lane.shortest >= SKIPPED_SELDOM and not lane.applying):
            lane.rest()
        self.keepsakes.take(instance.name, reply.keep)
        return reply.outcome or LANE_BROKEN(target, lane=lane.name, why=_why(reply))

    def _lane(self, name: str) -> Lane:
        if name not in self._lanes:
            self._lanes[name] = Lane(name, self._forker, self, time.monotonic)
        return self._lanes[name]

    def _outcome(self, instance: Instance, finding: Finding, seconds: float) -> Outcome:
        stamped = msgspec.structs.replace(finding, check=instance.check.name, observed_at=self._clock())
        return Outcome(instance.check.name, (stamped,), seconds)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()


def _why(reply: Reply) -> str:
    return reply.error or "the reply holds no outcome"
