"""Jobs that slurmctld told of and no hook of ours ever spoke for are counted by why nobody spoke."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection, select

from api.controller.tables import pauses
from api.store.job_tables import starts
from api.store.starts import REFUSED
from api.store.tables import NO_COUNT, job_facts, node_status
from slurm.hostlist import HostlistError, expand

NO_AGENT, AGENT_AWAY, NO_HOOK, PAUSED = "no_agent", "agent_away", "no_hook", "paused"
JOBS_LIMIT = 200_000
NODES_LIMIT = 20_000
# Heartbeats come every minute or so: an agent that was heard so soon before a start was there.
HEARD = timedelta(minutes=5)


@dataclass(slots=True)
class Unheard:
    """Starts by cause, the jobs they belong to, and every attempt that slurmctld told of."""

    causes: Counter[str] = field(default_factory=Counter)
    jobs: set[tuple[str, int]] = field(default_factory=set)
    attempts: set[tuple[str, str]] = field(default_factory=set)


def unheard(connection: Connection, since: datetime, before: datetime) -> Unheard:
    """Starts between the two moments of which slurmctld told and nobody else; by the first cause that explains it."""
    rows = connection.execute(
        select(job_facts)
        .where(job_facts.c.started_at >= since, job_facts.c.started_at < before, job_facts.c.nodelist.is_not(None))
        .order_by(job_facts.c.started_at.desc())
        .limit(JOBS_LIMIT)
    ).all()
    found = Unheard()
    if not rows:
        return found
    spoke, refused = _spoke(connection, since - timedelta(days=1))
    last = {(r.cluster, r.node): r.last_contact for r in connection.execute(select(node_status))}
    rests = _rests(connection, since)
    for row in rows:
        attempt = (row.cluster, f"{row.job_id}.{'x' if row.restart_count == NO_COUNT else row.restart_count}")
        found.attempts.add(attempt)
        # Of a refused attempt the other nodes never started anything.
        if attempt in refused:
            continue
        for node in _names(row.nodelist):
            if node not in spoke.get(attempt, ()):
                found.causes[_cause((row.cluster, node), row.started_at, last, rests)] += 1
                found.jobs.add((row.cluster, int(row.job_id)))
    return found


def _spoke(connection: Connection, since: datetime) -> tuple[dict[tuple[str, str], set[str]], set[tuple[str, str]]]:
    spoke: dict[tuple[str, str], set[str]] = {}
    refused = set()
    columns = (starts.c.cluster, starts.c.attempt, starts.c.node, starts.c.outcome)
    for r in connection.execute(select(*columns).where(starts.c.at >= since)):
        spoke.setdefault((r.cluster, r.attempt), set()).add(r.node)
        if r.outcome == REFUSED:
            refused.add((r.cluster, r.attempt))
    return spoke, refused


def _rests(connection: Connection, since: datetime) -> dict[tuple[str, str], list[tuple[datetime, datetime]]]:
    found: dict[tuple[str, str], list[tuple[datetime, datetime]]] = {}
    for r in connection.execute(select(pauses).where(pauses.c.until >= since)):
        end = min(r.until, r.ended_at) if r.ended_at is not None else r.until
        found.setdefault((r.cluster, r.node), []).append((r.created_at, end))
    return found


def _cause(
    key: tuple[str, str],
    at: datetime,
    last: Mapping[tuple[str, str], datetime],
    rests: Mapping[tuple[str, str], Sequence[tuple[datetime, datetime]]],
) -> str:
    if any(begin <= at <= end for begin, end in rests.get(key, ())):
        return PAUSED
    heard = last.get(key)
    if heard is None:
        return NO_AGENT
    return AGENT_AWAY if heard < at - HEARD else NO_HOOK


def _names(nodelist: str) -> tuple[str, ...]:
    try:
        return expand(nodelist, limit=NODES_LIMIT)
    except HostlistError:
        return ()
