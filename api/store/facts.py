"""Facts of a job attempt are laid over each other as they come, once or repeated, start before end or after it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

import msgspec
from sqlalchemy import Connection, Row, insert, select, update

from api.store.tables import NO_COUNT, job_facts
from slurm.jobfacts import JobFacts

Edge = Literal["start", "end"]


class FactsView(msgspec.Struct, frozen=True, kw_only=True):
    """What slurmctld said of one attempt; ``exit_status`` is a wait status, None before the end."""

    cluster: str
    job_id: int
    restart_count: int | None
    array_job_id: int | None
    array_task_id: int | None
    het_job_id: int | None
    het_offset: int | None
    partition: str | None
    nodelist: str | None
    started_at: datetime | None
    ended_at: datetime | None
    exit_status: int | None


def keep(connection: Connection, cluster: str, found: Iterable[tuple[Edge, JobFacts]], now: datetime) -> int:
    """Store facts of this cluster's jobs; how many."""
    kept = 0
    for edge, facts in found:
        if facts.job_id is None or facts.cluster not in (None, cluster):
            continue
        count = NO_COUNT if facts.restart_count is None else facts.restart_count
        key = {"cluster": cluster, "job_id": facts.job_id, "restart_count": count}
        values = {name: value for name, value in _values(edge, facts, now).items() if value is not None}
        where = [job_facts.c[name] == value for name, value in key.items()]
        if connection.execute(update(job_facts).where(*where).values(**values)).rowcount == 0:
            connection.execute(insert(job_facts).values(**key, **values))
        kept += 1
    return kept


def _values(edge: Edge, facts: JobFacts, now: datetime) -> dict[str, object]:
    return {
        "uid": facts.uid,
        "array_job_id": facts.array_job_id,
        "array_task_id": facts.array_task_id,
        "het_job_id": facts.het_job_id,
        "het_offset": facts.het_offset,
        "partition_name": facts.partition,
        "nodelist": facts.nodelist,
        "started_at": facts.at if edge == "start" else None,
        "ended_at": facts.at if edge == "end" else None,
        "exit_status": facts.exit_status if edge == "end" else None,
        "seen_at": now,
    }


def facts_of(connection: Connection, cluster: str, job_id: int, limit: int = 100) -> list[FactsView]:
    """All attempts of a job; for an array's own id the attempts of its tasks."""
    of_job = (job_facts.c.job_id == job_id) | (job_facts.c.array_job_id == job_id)
    query = select(job_facts).where(job_facts.c.cluster == cluster, of_job)
    rows = connection.execute(query.order_by(job_facts.c.job_id, job_facts.c.restart_count).limit(limit))
    return [_view(row) for row in rows]


def _view(row: Row[tuple[object, ...]]) -> FactsView:
    values = dict(row._mapping)
    del values["seen_at"], values["uid"]
    values["partition"] = values.pop("partition_name")
    if values["restart_count"] == NO_COUNT:
        values["restart_count"] = None
    return FactsView(**values)
