"""By what past a node is asked for, and how it is shown."""

from __future__ import annotations

from datetime import datetime

import msgspec


class PastFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes by their past, everything that is said together; ``since``: None for as long as anything is kept.

    ``had``: a code that was seen; ``part``: a GPU by UUID or serial number, or its beginning; ``driver``: in use now or
    since then; ``drained``, ``rebooted``: at least so often.
    """

    since: datetime | None = None
    had: str | None = None
    part: str | None = None
    driver: str | None = None
    drained: int | None = None
    rebooted: int | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing is asked for."""
        return (self.had, self.part, self.driver, self.drained, self.rebooted) == (None,) * 5


class TimelineItem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened on a node; ``kind``: finding, job, drain, slurm, reboot, driver, part or person."""

    at: datetime
    kind: str
    what: str
    detail: str = ""
    job_id: int | None = None
