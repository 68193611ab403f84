"""A request of the same attempt and hook gets the same answer, however often it is repeated."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

import msgspec

from checks.wire import JobAttempt, Report

# Without a restart count (Slurm 20.11) a requeued job looks the same: then an older answer was a former attempt's.
ANONYMOUS_SECONDS = 60.0
# With one, this long; a Slurm set up anew counts its jobs from 1 again.
NAMED_SECONDS = 600.0
LIMIT = 512


@dataclass(frozen=True, slots=True)
class Answer:
    """What a hook is told: its exit code and one line."""

    exit: int
    line: str


@dataclass(slots=True)
class _Given:
    at: float
    job_id: int
    named: bool
    task: asyncio.Future[Answer]


class Answers:
    """Answers of the last minutes, and those that are still being found."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._given: OrderedDict[tuple[str, str], _Given] = OrderedDict()

    def task(self, hook: str, job: JobAttempt, find: Callable[[], Awaitable[Answer]]) -> asyncio.Future[Answer]:
        """The answer given or under way, else a new one begun with ``find``."""
        key, now = (hook, job.key), self._clock()
        given = self._given.get(key)
        if given is not None and now - given.at < (NAMED_SECONDS if given.named else ANONYMOUS_SECONDS):
            return given.task
        made = _Given(now, job.job_id, job.restart_count is not None, asyncio.ensure_future(find()))
        self._given[key] = made
        self._given.move_to_end(key)
        while len(self._given) > LIMIT:
            self._given.popitem(last=False)
        return made.task

    def seed(self, hook: str, job: JobAttempt, answer: Answer, age: float) -> None:
        """Take over an answer that an earlier agent gave ``age`` seconds ago."""
        done: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        done.set_result(answer)
        self._given[(hook, job.key)] = _Given(
            self._clock() - max(0.0, age), job.job_id, job.restart_count is not None, done
        )

    def recall(self, reports: Iterable[bytes], now: datetime) -> None:
        """Take over what an earlier agent answered, as its reports on disk tell; garbled ones tell nothing."""
        for payload in reports:
            try:
                report = msgspec.json.decode(payload, type=Report)
                age = (now - report.started_at).total_seconds()
            except (msgspec.MsgspecError, TypeError):
                continue
            if report.job is None or report.decision is None or not 0 <= age < NAMED_SECONDS:
                continue
            refused = report.decision.allowed == "refuse"
            line = f"nodevet: {'refused' if refused else 'admitted'}: {report.decision.reason}"
            self.seed("prolog", report.job, Answer(int(refused), line), age)

    def ended(self, job_id: int) -> None:
        """The job's epilog has run here: what comes with its id from now on is another attempt."""
        for key in [k for k, g in self._given.items() if g.job_id == job_id and k[0] == "prolog"]:
            del self._given[key]
