"""What Slurm did with a refused attempt is asked for a while and kept beside its starts."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, func, select, update

from api.store.coverage import start_view
from api.store.job_tables import starts
from api.store.starts import REFUSED
from api.store.views import StartView

OPEN = ("", "waiting", "held")


def open_fates(connection: Connection, cluster: str, since: datetime, limit: int) -> list[tuple[int, str, str]]:
    """Refused attempts since a moment whose end is not known: (job id, attempt, fate so far), the newest first."""
    newest = func.max(starts.c.id)
    rows = connection.execute(
        select(starts.c.job_id, starts.c.attempt, func.max(starts.c.fate).label("fate"))
        .where(
            starts.c.cluster == cluster,
            starts.c.outcome == REFUSED,
            starts.c.at >= since,
            starts.c.fate.in_(OPEN),
        )
        .group_by(starts.c.job_id, starts.c.attempt)
        .order_by(newest.desc())
        .limit(limit)
    )
    return [(int(r.job_id), r.attempt, r.fate) for r in rows]


def refused_since(
    connection: Connection, cluster: str, since: datetime, limit: int = 200
) -> list[tuple[int, str, str]]:
    """Refused attempts since a moment: (job id, attempt, where and why), the newest first."""
    rows = connection.execute(
        select(starts.c.job_id, starts.c.attempt, starts.c.node, starts.c.detail)
        .where(starts.c.cluster == cluster, starts.c.outcome == REFUSED, starts.c.at >= since)
        .order_by(starts.c.id.desc())
        .limit(limit)
    )
    found: dict[tuple[int, str], list[str]] = {}
    for r in rows:
        found.setdefault((int(r.job_id), r.attempt), []).append(f"{r.node}: {r.detail}")
    return [(job, attempt, f"attempt {attempt} on {'; '.join(told)}") for (job, attempt), told in found.items()]


def write_fate(
    connection: Connection, cluster: str, attempt: str, since: datetime, fate: str, detail: str, until: datetime | None
) -> None:
    """Keep what became of an attempt that was refused since then."""
    connection.execute(
        update(starts)
        .where(
            starts.c.cluster == cluster,
            starts.c.attempt == attempt,
            starts.c.outcome == REFUSED,
            starts.c.at >= since,
        )
        .values(fate=fate, fate_detail=detail[:256], fate_until=until)
    )


def starts_of_job(connection: Connection, cluster: str, job_id: int, limit: int = 10_000) -> list[StartView]:
    """Every start of one job, all attempts and nodes, in the order of arrival."""
    rows = connection.execute(
        select(starts).where(starts.c.cluster == cluster, starts.c.job_id == job_id).order_by(starts.c.id).limit(limit)
    )
    return [start_view(r) for r in rows]
