"""What a check said a week before its node's newest finding no longer counts: the check is gone or never runs."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection, distinct, func, select, tuple_, update

from api.store.current import Current, changed, read_current, write_changes, write_current
from api.store.database import Database
from api.store.incidents import FROM_FINDINGS
from api.store.job_faults import JOB_KIND
from api.store.status import from_findings, read_status
from api.store.tables import findings, incidents, node_status
from checks.judge.policy import Policy

RETIRED_AFTER = timedelta(days=7)
JOB_QUIET_AFTER = timedelta(days=1)


def retire(database: Database, now: datetime, policy: Policy) -> int:
    """Drop what no longer counts on every node, one transaction a node; how many nodes had something."""
    with database.read() as connection:
        nodes = connection.execute(
            select(findings.c.cluster, findings.c.node)
            .group_by(findings.c.cluster, findings.c.node)
            .having(func.count(distinct(findings.c.observed_at)) > 1)
        ).all()
    return sum(_retire(database, now, (n.cluster, n.node), policy) for n in nodes)


def end_job_incidents(database: Database, now: datetime) -> int:
    """Close incidents of jobs in which nothing new has begun for a day; how many."""
    with database.begin() as connection:
        done = connection.execute(
            update(incidents)
            .where(
                incidents.c.kind == JOB_KIND,
                incidents.c.closed_at.is_(None),
                incidents.c.last_seen < now - JOB_QUIET_AFTER,
            )
            .values(closed_at=now, closed_why="nothing more has begun during this job for a day")
        )
        return done.rowcount


def _retire(database: Database, now: datetime, node: tuple[str, str], policy: Policy) -> bool:
    """Ages are taken between findings of one node, so that a node whose clock is wrong loses nothing."""
    with database.begin() as connection:
        before = read_current(connection, *node)
        times = [f.observed_at for f in before.values() if f.observed_at]
        newest = max(times, default=now)
        after = {k: f for k, f in before.items() if not f.observed_at or newest - f.observed_at <= RETIRED_AFTER}
        if len(after) == len(before):
            return False
        _write(connection, now, node, (before, after), policy)
        return True


def _write(
    connection: Connection, now: datetime, node: tuple[str, str], states: tuple[Current, Current], policy: Policy
) -> None:
    before, after = states
    gone = sorted({f.check for k, f in before.items() if k not in after})
    write_changes(connection, changed(*node, before, after, now))
    write_current(connection, *node, gone, after)
    status = read_status(connection, *node)
    values = from_findings(after, policy, status.reported_verdict if status else "unknown")
    where = tuple_(node_status.c.cluster, node_status.c.node) == tuple_(*node)
    connection.execute(update(node_status).where(where).values(**values))
    left = {(f.code, f.target) for f in after.values() if f.status in ("fail", "unknown")}
    _close(connection, now, node, gone, left)


def _close(
    connection: Connection, now: datetime, node: tuple[str, str], gone: list[str], left: set[tuple[str, str]]
) -> None:
    rows = connection.execute(
        select(incidents.c.id, incidents.c.code, incidents.c.target).where(
            incidents.c.cluster == node[0],
            incidents.c.node == node[1],
            incidents.c.closed_at.is_(None),
            incidents.c.kind.in_(FROM_FINDINGS),
            incidents.c.check_name.in_(gone),
        )
    )
    ended = [r.id for r in rows if (r.code, r.target) not in left]
    why = f"its check has not reported for {RETIRED_AFTER.days} days"
    if ended:
        connection.execute(update(incidents).where(incidents.c.id.in_(ended)).values(closed_at=now, closed_why=why))
