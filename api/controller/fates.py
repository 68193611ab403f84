"""Slurm is asked, now and then and for a few jobs at a time, what it did with those that were refused."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import datetime, timedelta

from api.controller.core import Core
from api.store.database import Database
from api.store.fates import open_fates, write_fate
from slurm.errors import SlurmError
from slurm.job import JobState

log = logging.getLogger(__name__)
ASKED_FOR = timedelta(hours=2)
AT_ONCE = 8
KNOWN = 1000
# Nothing known yet; waiting or held already.
SOON_SECONDS, LATER_SECONDS = 10.0, 60.0
JOB_SECONDS = 5.0


class Fates:
    """Which refused attempts were asked about, and when."""

    def __init__(self, core: Core, database: Database) -> None:
        self._core = core
        self._database = database
        self._asked: dict[str, float] = {}

    async def look(self) -> None:
        """Ask about a few attempts whose fate is not known or may have changed; no answer changes nothing."""
        since = self._core.clock() - ASKED_FOR
        opened = await asyncio.to_thread(self._open, since)
        self._asked = {attempt: self._asked[attempt] for _, attempt, _ in opened if attempt in self._asked}
        now = time.monotonic()
        due = [(j, a, f) for j, a, f in opened if now - self._asked.get(a, -1e9) >= _pause(f)]
        for job_id, attempt, fate in due[:AT_ONCE]:
            self._asked[attempt] = now
            try:
                job = await self._core.view.call(self._core.view.backend.job, job_id, timeout=JOB_SECONDS)
            except (SlurmError, TimeoutError) as error:
                log.warning("fate not asked job=%s why=%s", attempt, error)
                return
            found = fate_of(job, attempt, fate)
            if found is not None:
                await asyncio.to_thread(self._write, attempt, since, found, job)

    def _open(self, since: datetime) -> list[tuple[int, str, str]]:
        with self._database.read() as connection:
            return open_fates(connection, self._core.cluster, since, KNOWN)

    def _write(self, attempt: str, since: datetime, fate: str, job: JobState | None) -> None:
        detail = f"{job.state} {job.reason or ''}".strip() if job else "slurm no longer knows the job"
        until = job.start_time if job and fate == "waiting" else None
        with self._database.begin() as connection:
            write_fate(connection, self._core.cluster, attempt, since, fate, detail, until)


def _pause(fate: str) -> float:
    return LATER_SECONDS if fate else SOON_SECONDS


def fate_of(job: JobState | None, attempt: str, before: str) -> str | None:
    """What became of a refused attempt, or None while it cannot be told; Slurm counts a restart when it requeues."""
    if job is None:
        return None if before else "forgotten"
    count = attempt.partition(".")[2]
    requeued = job.restart_count is not None and (not count.isdigit() or job.restart_count > int(count))
    if job.state == "PENDING":
        return "held" if job.held else "waiting"
    if job.ended and job.state == "CANCELLED":
        return "cancelled"
    if requeued and (job.running or job.ended):
        return "restarted"
    return "cancelled" if job.ended else None
