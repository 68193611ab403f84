"""By opt-in our finding stands in Slurm beside a foreign reason, and why a job was refused beside the job."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from api.controller.core import Core
from api.store.database import Database
from api.store.fates import refused_since
from checks.wire import Finding
from slurm.backend import Field
from slurm.errors import SlurmError
from slurm.notes import TEXT_LIMIT, Noted, annotate, annotate_job, noted
from slurm.ownership import Result
from slurm.reason import Owner, one_line, owner_of
from slurm.state import NodeState

log = logging.getLogger(__name__)
NODE_TAG, JOB_TAG = "finding", "refused"
# A rack that loses its switch must not cost slurmctld a rack of writes at once.
AT_ONCE = 4
CODES_SHOWN = 3
FIELDS: tuple[Field, ...] = ("comment", "extra")
AGAIN_SECONDS = 600.0
JOBS_SINCE = timedelta(hours=1)
KNOWN = 5000
_GOOD = (Result.WRITTEN, Result.ALREADY_OURS)


class Annotations:
    """Writes only what differs from what the last bulk read shows, a few nodes and jobs a round."""

    def __init__(self, core: Core, database: Database) -> None:
        self._core, self._db = core, database
        self._failed: dict[str, float] = {}
        self._jobs: dict[str, None] = {}

    async def look(self) -> None:
        """Bring the texts up to what is true now; where nobody opted in, any more, only what is ours is taken away."""
        await self._nodes()
        if self._core.settings.annotate_jobs:
            await self._refused()

    async def _nodes(self) -> None:
        core = self._core
        chosen = core.settings.annotate
        failing = await asyncio.to_thread(core.store.all_failing, core.cluster) if chosen else {}
        due = [
            (name, field, text)
            for name, state in core.view.states.items()
            for field in FIELDS
            if (text := wanted(state, failing) if field in chosen else "") != _ours(_held(state, field))
            and not core.paused(name)
            and self._may(f"{field} {name}")
        ]
        for name, field, text in due[:AT_ONCE]:
            await self._put(f"{field} {name}", name, text, annotate, name, field, NODE_TAG, text)

    def _may(self, key: str) -> bool:
        return time.monotonic() - self._failed.get(key, float("-inf")) >= AGAIN_SECONDS

    async def _put(self, key: str, subject: str, text: str, write: Callable[..., Noted], *arguments: object) -> bool:
        core = self._core
        try:
            pen = await core.pen()
            done = await pen.tell(subject, f"note: {text or 'taken away'}", write, core.view.backend, *arguments)
        except (SlurmError, TimeoutError) as error:
            done = Noted(Result.FAILED, str(error))
        if done.result not in _GOOD:
            self._failed[key] = time.monotonic()
            log.warning("not annotated what=%s result=%s why=%s", key, done.result.value, done.detail)
            return False
        self._failed.pop(key, None)
        if done.result is Result.WRITTEN:
            await asyncio.to_thread(core.audit, "annotated" if text else "annotation removed", subject, text)
        return True

    async def _refused(self) -> None:
        since = self._core.clock() - JOBS_SINCE
        found = await asyncio.to_thread(self._read, since)
        due = [(j, a, t) for j, a, t in found if a not in self._jobs and self._may(f"job {a}")]
        for job_id, attempt, text in due[:AT_ONCE]:
            if await self._put(f"job {attempt}", f"job {job_id}", text, annotate_job, job_id, JOB_TAG, text):
                self._jobs[attempt] = None
        while len(self._jobs) > KNOWN:
            del self._jobs[next(iter(self._jobs))]

    def _read(self, since: datetime) -> list[tuple[int, str, str]]:
        with self._db.read() as connection:
            return refused_since(connection, self._core.cluster, since)


def wanted(state: NodeState, failing: Mapping[str, Sequence[Finding]]) -> str:
    """What is to stand beside the reason: codes and parts only, and only while the reason is somebody else's."""
    found = failing.get(state.name, ())
    if not found or owner_of(state) not in (Owner.SLURM, Owner.OTHER):
        return ""
    told = list(dict.fromkeys(f"{f.code} {f.target}" for f in found if (f.status, f.blame) == ("fail", "node")))
    more = f" and {len(told) - CODES_SHOWN} more" if len(told) > CODES_SHOWN else ""
    if not told:
        return ""
    return one_line((", ".join(told[:CODES_SHOWN]) + more).replace("[", "(").replace("]", ")"), TEXT_LIMIT)


def _ours(held: str) -> str:
    return (noted(held, NODE_TAG) or "") if held else ""


def _held(state: NodeState, field: Field) -> str:
    return (state.comment if field == "comment" else state.extra) or ""
