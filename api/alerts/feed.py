"""What is to be told of: open incidents, those that ended lately, and many alike as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import RowMapping, and_, select

from api.alerts.tables import alerts_told
from api.controller.automatic import many
from api.store.database import Database
from api.store.tables import incidents

Severity = Literal["critical", "warning", "info"]
MOST = 20_000
# What concerns the service as a whole, or waits for a person, wakes people.
_CRITICAL = frozenset({"remedy_needs_person", "remedy_failed", "drain_failed", "resume_failed"})


@dataclass(frozen=True, slots=True)
class Alert:
    """One problem as the outside hears of it; ``ended`` None: it lasts."""

    incident: int
    times: int
    cluster: str
    node: str
    code: str
    target: str
    severity: Severity
    message: str
    began: datetime
    ended: datetime | None
    why_ended: str = ""


class Feed:
    """Reads the incidents of one cluster."""

    def __init__(self, database: Database, cluster: str) -> None:
        self._db, self._cluster = database, cluster

    def lasting(self, now: datetime, ended_within: float) -> list[Alert]:
        """Every open problem, and those that ended within some seconds; many alike are one."""
        mine = incidents.c.cluster == self._cluster
        since = now - timedelta(seconds=ended_within)
        lately = incidents.c.closed_at.is_(None) | (incidents.c.closed_at >= since)
        with self._db.read() as connection:
            query = select(incidents).where(mine, lately).order_by(incidents.c.id).limit(MOST)
            rows = list(connection.execute(query).mappings())
        return [alert(row) for row in _ungrouped(rows)]

    def untold(self) -> list[tuple[Alert, str]]:
        """What the webhook has not heard of: problems that opened, and ends of those that it has heard of."""
        mine = incidents.c.cluster == self._cluster
        told = alerts_told
        same = and_(told.c.incident_id == incidents.c.id, told.c.times_opened == incidents.c.times_opened)
        heard = select(told.c.incident_id).where(same, told.c.told.is_(True))
        fresh = select(incidents).where(
            mine, incidents.c.closed_at.is_(None), ~heard.where(told.c.phase == "opened").exists()
        )
        over = select(incidents).where(
            mine,
            incidents.c.closed_at.is_not(None),
            heard.where(told.c.phase == "opened").exists(),
            ~heard.where(told.c.phase == "closed").exists(),
        )
        groups = select(incidents).where(mine, incidents.c.kind == "correlated", incidents.c.closed_at.is_(None))
        with self._db.read() as connection:
            opened = list(connection.execute(fresh.order_by(incidents.c.id).limit(MOST)).mappings())
            closed = list(connection.execute(over.order_by(incidents.c.id).limit(MOST)).mappings())
            together = _groups(list(connection.execute(groups).mappings()))
        return [
            *((alert(r), "closed") for r in closed),
            *((alert(r), "opened") for r in opened if not _grouped(r, together)),
        ]


def alert(row: RowMapping) -> Alert:
    """One incident as an alert."""
    return Alert(
        incident=row["id"],
        times=row["times_opened"],
        cluster=row["cluster"],
        node=row["node"],
        code=row["code"],
        target=row["target"],
        severity=_severity(row),
        message=row["message"],
        began=row["first_seen"],
        ended=row["closed_at"],
        why_ended=row["closed_why"],
    )


def _severity(row: RowMapping) -> Severity:
    if row["kind"] == "correlated" or row["code"] in _CRITICAL:
        return "critical"
    if row["kind"] == "controller":
        return "warning" if row["node"] else "critical"
    return "info" if row["kind"] == "unanswered" else "warning"


def _ungrouped(rows: Sequence[RowMapping]) -> list[RowMapping]:
    together = _groups(rows)
    return [r for r in rows if not _grouped(r, together)]


def _groups(rows: Sequence[RowMapping]) -> Mapping[str, datetime]:
    """The codes of open incidents that stand for many nodes, and since when."""
    return {r["code"]: r["first_seen"] for r in rows if r["kind"] == "correlated" and r["closed_at"] is None}


def _grouped(row: RowMapping, together: Mapping[str, datetime]) -> bool:
    """Whether an incident is told of by the one that stands for many; what was there before has its own alert."""
    if row["kind"] == "correlated":
        return False
    began = together.get(many(row["code"]))
    # The guard sees that many fail alike only after the first ones have come in.
    return began is not None and row["first_seen"] >= began - timedelta(minutes=10)
