"""How many jobs began without a whole answer, by cause: the one number that says whether a cluster is protected."""

from __future__ import annotations

from collections.abc import Set
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, func, select

from api.store.job_tables import starts
from api.store.starts import REFUSED, VETTED
from api.store.unheard import unheard
from api.store.views import StartsView, StartView

NO_REPORT = "no_report"
NEWEST = 50
# A node's report may be under way for that long.
UNDER_WAY = timedelta(minutes=5)


def start_view(row: Row[Any]) -> StartView:
    """The start in a row."""
    names = StartView.__struct_fields__
    return StartView(**{name: getattr(row, name) for name in names})


def counted(connection: Connection, since: datetime, now: datetime) -> StartsView:
    """Starts since a moment by their outcome, with the nodes of jobs of which nothing was heard."""
    rows = connection.execute(
        select(starts.c.outcome, func.count().label("n")).where(starts.c.at >= since).group_by(starts.c.outcome)
    )
    found = {r.outcome: int(r.n) for r in rows}
    told = unheard(connection, since, now - UNDER_WAY)
    silent = _silent(connection, since, now, told.attempts)
    causes = {k: n for k, n in found.items() if k not in (VETTED, REFUSED)}
    if silent:
        causes[NO_REPORT] = sum(silent.values())
    for cause, n in told.causes.items():
        causes[cause] = causes.get(cause, 0) + n
    vetted, refused, unvetted = found.get(VETTED, 0), found.get(REFUSED, 0), sum(causes.values())
    total = vetted + refused + unvetted
    without = starts.c.outcome.not_in((VETTED, REFUSED))
    newest = connection.execute(
        select(starts).where(starts.c.at >= since, without).order_by(starts.c.id.desc()).limit(NEWEST)
    )
    named = connection.execute(
        select(starts.c.cluster, starts.c.job_id).distinct().where(starts.c.at >= since, without)
    )
    jobs = {(str(r.cluster), int(r.job_id)) for r in named}
    return StartsView(
        since=since,
        starts=total,
        vetted=vetted,
        refused=refused,
        unvetted=unvetted,
        jobs_unvetted=len(jobs | set(silent) | told.jobs),
        protected=round(100.0 * (vetted + refused) / total, 3) if total else None,
        causes=dict(sorted(causes.items())),
        newest=tuple(start_view(r) for r in newest),
    )


def _silent(
    connection: Connection, since: datetime, now: datetime, told: Set[tuple[str, str]]
) -> dict[tuple[str, int], int]:
    """Per job how many of its nodes nobody spoke for, of attempts that slurmctld has not ``told`` node by node.

    An attempt is not judged while reports may be under way.
    """
    seen = func.count(starts.c.node.distinct())
    rows = connection.execute(
        select(
            starts.c.cluster,
            starts.c.job_id,
            starts.c.attempt,
            seen.label("seen"),
            func.max(starts.c.nodes).label("nodes"),
        )
        .where(starts.c.at >= since)
        .group_by(starts.c.cluster, starts.c.job_id, starts.c.attempt)
        .having(func.max(starts.c.nodes) > seen, func.max(starts.c.at) < now - UNDER_WAY)
    )
    silent: dict[tuple[str, int], int] = {}
    for r in rows:
        if (r.cluster, r.attempt) in told:
            continue
        silent[(r.cluster, r.job_id)] = silent.get((r.cluster, r.job_id), 0) + int(r.nodes - r.seen)
    return silent
