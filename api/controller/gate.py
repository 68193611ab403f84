"""The job gate: the first node of a job waits here until every live member of the job has answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from checks.wire import GateAnswer, GateRequest

# Members without an open poll are answered for after this time, named absent.
ABSENT_SECONDS = 1.0
JOB_LOOK_SECONDS = 0.25
KEEP_SECONDS = 300.0
MEMBERS_LIMIT = 20_000

Alive = Callable[[str, str], bool]
StillRunning = Callable[[int], Awaitable[bool | None]]


@dataclass(slots=True)
class _Gate:
    members: set[str] = field(default_factory=set)
    answers: dict[str, str] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    opened: float = field(default_factory=time.monotonic)

    def tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()

    @property
    def refused(self) -> tuple[str, ...]:
        return tuple(sorted(n for n, a in self.answers.items() if a == "refuse"))


class Gates:
    """All gates that are open or were a moment ago, keyed by cluster and job attempt."""

    def __init__(self, alive: Alive, running: StillRunning) -> None:
        self._alive = alive
        self._running = running
        self._gates: dict[tuple[str, str], _Gate] = {}
        self.opened = 0
        self.expired = 0
        self.absent = 0

    async def answer(self, request: GateRequest) -> GateAnswer:
        """Take one member's answer; a holder gets the whole job's when it is there or its wait ends."""
        gate = self._gate(request)
        if request.answer != "pending":
            gate.answers[request.node] = request.answer
            gate.tell()
        if not request.hold:
            return GateAnswer(complete=True, refused=gate.refused)
        self.opened += 1
        gate.members |= set(request.members[:MEMBERS_LIMIT])
        return await self._hold(gate, request)

    def _gate(self, request: GateRequest) -> _Gate:
        now = time.monotonic()
        for key in [k for k, g in self._gates.items() if now - g.opened > KEEP_SECONDS]:
            del self._gates[key]
        return self._gates.setdefault((request.cluster, request.job.key), _Gate())

    async def _hold(self, gate: _Gate, request: GateRequest) -> GateAnswer:
        deadline = time.monotonic() + min(max(request.wait, 0.0), KEEP_SECONDS)
        absent_from = time.monotonic() + ABSENT_SECONDS
        while True:
            missing = self._missing(gate, request, absent_from)
            if gate.refused:
                left = await self._left_running(request.job.job_id, deadline)
                return GateAnswer(complete=True, refused=gate.refused, left_running=left, why="refused elsewhere")
            if not missing:
                absent = self._absent(gate, request)
                self.absent += len(absent)
                return GateAnswer(complete=True, absent=absent)
            now = time.monotonic()
            if now >= deadline:
                self.expired += 1
                return GateAnswer(complete=False, absent=tuple(sorted(missing)), why="no answer in time")
            # Wake at the next answer, and when silent members may be counted as absent.
            until = min(deadline, absent_from) if now < absent_from else min(deadline, now + ABSENT_SECONDS)
            changed = gate.changed
            try:
                await asyncio.wait_for(changed.wait(), max(0.01, until - now))
            except asyncio.TimeoutError:
                continue

    def _missing(self, gate: _Gate, request: GateRequest, absent_from: float) -> set[str]:
        """Members that still owe an answer; once ``absent_from`` has passed only live ones do."""
        silent = gate.members - gate.answers.keys() - {request.node}
        if time.monotonic() < absent_from:
            return silent
        return {n for n in silent if self._alive(request.cluster, n)}

    def _absent(self, gate: _Gate, request: GateRequest) -> tuple[str, ...]:
        return tuple(sorted(gate.members - gate.answers.keys() - {request.node}))

    async def _left_running(self, job_id: int, deadline: float) -> bool:
        """Wait until Slurm has taken the job back, so that the holder's exit cannot start its script."""
        while time.monotonic() < deadline:
            if await self._running(job_id) is False:
                return True
            await asyncio.sleep(min(JOB_LOOK_SECONDS, max(0.0, deadline - time.monotonic())))
        return False
