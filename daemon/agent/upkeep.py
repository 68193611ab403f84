"""The agent looks at itself before each report: its disk, its lanes, its socket, and what hooks left behind."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from checks.wire import JobAttempt
from daemon.agent import codes, ground
from daemon.agent.findings import Findings
from daemon.config import AgentSettings
from daemon.lanes.pool import LaneError, LanePool
from daemon.outbox.outbox import HUNG_AFTER, Outbox

log = logging.getLogger(__name__)
MARKS_WITHIN = 1.0
STOP_WITHIN = 0.5


@dataclass(slots=True)
class Upkeep:
    """What is wrong with us becomes findings of the check ``agent``."""

    settings: AgentSettings
    pool: LanePool
    outbox: Outbox
    findings: Findings
    missed: Callable[[JobAttempt, str, datetime], None]
    marks: int = 0

    def look(self) -> None:
        """Disk and lanes, from memory only."""
        hung, outbox = self.outbox.hung, self.outbox
        if hung:
            self.findings.note(codes.STATE_DIR_HUNG, seconds=round(hung, 1), limit=HUNG_AFTER)
        else:
            self.findings.settled(codes.STATE_DIR_HUNG)
        if outbox.trouble and not hung:
            self.findings.note(codes.STATE_DIR_FAILED, error=outbox.trouble)
        else:
            self.findings.settled(codes.STATE_DIR_FAILED)
        if outbox.lost:
            self.findings.note(codes.REPORTS_LOST, count=outbox.lost)
        if self.pool.trouble:
            self.findings.note(codes.LANES_LOST, error=self.pool.trouble)

    async def stopped(self) -> bool:
        """Whether the STOP file is there; raises LaneError when that cannot be told."""
        arguments = {"path": self.settings.stop_file}
        return bool(await self.pool.call(ground.LANE, ground.STOPPED, arguments, timeout=STOP_WITHIN))

    async def take_marks(self) -> list[str]:
        """Calls that hooks could not bring to us become one finding, until a look finds none; gives notes of them."""
        arguments = {"directory": self.settings.marks}
        try:
            found = await self.pool.call(ground.LANE, ground.MARKS, arguments, timeout=MARKS_WITHIN)
        except LaneError as error:
            log.warning("event=marks_not_read why=%r", str(error))
            return []
        marks = [mark for mark in found if isinstance(mark, dict)] if isinstance(found, list) else []
        if not marks:
            self.findings.settled(codes.HOOK_UNANSWERED)
            return []
        self.marks += len(marks)
        for mark in marks:
            self._unvetted(mark)
        causes = Counter(f"{mark.get('hook')} {mark.get('cause')}" for mark in marks)
        text = ", ".join(f"{cause} x{count}" for cause, count in causes.most_common(8))
        log.error("event=hooks_unanswered count=%d causes=%r", len(marks), text)
        self.findings.note(codes.HOOK_UNANSWERED, count=len(marks), causes=text)
        return [f"unanswered {m.get('hook')} of job {m.get('job')}: {m.get('cause')}" for m in marks[:16]]

    def _unvetted(self, mark: Mapping[object, object]) -> None:
        """A prolog that left a mark let its job begin without any answer."""
        job, restart, at = mark.get("job"), mark.get("restart"), mark.get("at")
        if mark.get("hook") != "prolog" or not isinstance(job, str) or not isinstance(at, int):
            return
        # A file's name: digits only, but of any size.
        if not 0 < int(job) < 2**32:
            return
        count = int(restart) if isinstance(restart, str) and int(restart) < 2**31 else None
        when = datetime.fromtimestamp(at, timezone.utc)
        self.missed(JobAttempt(job_id=int(job), restart_count=count), f"hook_{mark.get('cause')}", when)
