"""The job gate: the first node of a job waits here until every live member of the job has answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Set
from dataclasses import dataclass, field

from checks.wire import GateAnswer, GateRequest

# Members without an open poll are answered for after this time, named absent.
ABSENT_SECONDS = 1.0
JOB_LOOK_SECONDS = 0.25
# A gate that is still closed looks this often whether its job is still there, and all gates together ask Slurm no
# oftener than the second figure says: many gates closed at once are no load on slurmctld.
LEFT_LOOK_SECONDS = 1.0
ALL_LOOKS_SECONDS = 0.2
LOOK_WITHIN = 0.5
KEEP_SECONDS = 300.0
# Without a restart count (20.11) the next attempt has the same key: what is older than this was said in a former one.
ANONYMOUS_SECONDS = 60.0
MEMBERS_LIMIT = 20_000
GATES_LIMIT = 10_000

Alive = Callable[[str, str], bool]
StillRunning = Callable[[int], Awaitable[bool | None]]


@dataclass(slots=True)
class _Gate:
    """One attempt's answers with the time of each; ``holders`` wait at it now."""

    named: bool
    answers: dict[str, tuple[str, float]] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    opened: float = field(default_factory=time.monotonic)
    holders: int = 0
    ended: float = float("-inf")

    def say(self, node: str, answer: str) -> None:
        self.answers[node] = (answer, time.monotonic())
        self.changed.set()
        self.changed = asyncio.Event()

    def begin(self) -> None:
        """A holder arrives; where attempts cannot be told apart, what was said before the last one went is dropped."""
        if not self.named and not self.holders:
            since = max(self.ended, time.monotonic() - ANONYMOUS_SECONDS)
            self.answers = {n: (a, at) for n, (a, at) in self.answers.items() if at > since}
        self.holders += 1

    def end(self) -> None:
        self.holders -= 1
        self.ended = time.monotonic()

    def refused(self, members: Set[str]) -> tuple[str, ...]:
        """The members that refuse; whoever is no member has no voice."""
        return tuple(sorted(n for n, (a, _) in self.answers.items() if a == "refuse" and n in members))


class Gates:
    """All gates that are open or were a moment ago, keyed by cluster and job attempt."""

    def __init__(self, alive: Alive, running: StillRunning) -> None:
        self._alive = alive
        self._running = running
        self._gates: dict[tuple[str, str], _Gate] = {}
        self.opened = 0
        self.expired = 0
        self.absent = 0
        self.left = 0
        self._look_at = float("-inf")

    async def answer(self, request: GateRequest) -> GateAnswer:
        """Take one member's answer; a holder gets the whole job's when it is there or its wait ends."""
        gate = self._gate(request)
        if not request.hold:
            if request.answer != "pending":
                gate.say(request.node, request.answer)
            return GateAnswer(complete=True)
        gate.begin()
        try:
            if request.answer != "pending":
                gate.say(request.node, request.answer)
            self.opened += 1
            return await self._hold(gate, request, frozenset(request.members[:MEMBERS_LIMIT]))
        finally:
            gate.end()

    def _gate(self, request: GateRequest) -> _Gate:
        key = (request.cluster, request.job.key)
        if (found := self._gates.get(key)) is None or self._over(found):
            self._gates.pop(key, None)
            found = self._gates[key] = _Gate(named=request.job.restart_count is not None)
            self._make_room()
        return found

    def _over(self, gate: _Gate) -> bool:
        return not gate.holders and time.monotonic() - gate.opened > KEEP_SECONDS

    def _make_room(self) -> None:
        """Drop gates from the oldest on while they are over, or too many; never one that somebody waits at."""
        for key, gate in list(self._gates.items())[:64]:
            if gate.holders or not (self._over(gate) or len(self._gates) > GATES_LIMIT):
                continue
            del self._gates[key]

    async def _hold(self, gate: _Gate, request: GateRequest, members: Set[str]) -> GateAnswer:
        deadline = time.monotonic() + min(max(request.wait, 0.0), KEEP_SECONDS)
        absent_from = time.monotonic() + ABSENT_SECONDS
        look_from = time.monotonic() + LEFT_LOOK_SECONDS
        while True:
            if refused := gate.refused(members):
                left = await self._left_running(request.job.job_id, deadline)
                return GateAnswer(complete=True, refused=refused, left_running=left, why="refused elsewhere")
            silent = members - gate.answers.keys() - {request.node}
            now = time.monotonic()
            # Once that time has passed only live members still owe an answer.
            missing = silent if now < absent_from else {n for n in silent if self._alive(request.cluster, n)}
            if not missing:
                self.absent += len(silent)
                return GateAnswer(complete=True, absent=tuple(sorted(silent)))
            if now >= deadline:
                self.expired += 1
                return GateAnswer(complete=False, absent=tuple(sorted(missing)), why="no answer in time")
            if now >= look_from:
                if await self._has_left(request.job.job_id, deadline - now):
                    self.left += 1
                    return GateAnswer(complete=True, left_running=True, why="job has left its nodes")
                look_from = time.monotonic() + LEFT_LOOK_SECONDS
            # Wake at the next answer, and when silent members may be counted as absent.
            until = min(deadline, absent_from) if now < absent_from else min(deadline, now + ABSENT_SECONDS)
            try:
                await asyncio.wait_for(gate.changed.wait(), max(0.01, until - now))
            except asyncio.TimeoutError:
                continue

    async def _has_left(self, job_id: int, left: float) -> bool:
        """Whether a job that a gate still waits for was cancelled meanwhile: then nobody has to be waited for.

        A Slurm that is slow to say costs the gate no more than a moment.
        """
        if time.monotonic() < self._look_at + ALL_LOOKS_SECONDS:
            return False
        self._look_at = time.monotonic()
        try:
            return await asyncio.wait_for(self._running(job_id), max(0.01, min(LOOK_WITHIN, left))) is False
        except asyncio.TimeoutError:
            return False

    async def _left_running(self, job_id: int, deadline: float) -> bool:
        """Wait until Slurm has taken the job back, so that the holder's exit cannot start its script."""
        while time.monotonic() < deadline:
            if await self._running(job_id) is False:
                return True
            await asyncio.sleep(min(JOB_LOOK_SECONDS, max(0.0, deadline - time.monotonic())))
        return False
