"""A node is said to fail jobs only where the same users' jobs of the same day and size fare better elsewhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection, select

from api.store.job_tables import starts
from api.store.lemon_views import FailingNode
from api.store.starts import REFUSED
from api.store.tables import NO_COUNT, job_facts
from checks.judge.peers import Stratum, chance_among
from slurm.hostlist import HostlistError, expand

# One user's failing program, however often it fails, speaks of no node.
LEAST_USERS = 2
LEAST_FAILED = 3
CHANCE = 0.05
SHOWN = 100
JOBS_LIMIT = 500_000
NODES_LIMIT = 4096
# An ending that somebody asked for (scancel, a time limit, preemption) is no failure: SIGHUP, INT, KILL, TERM, CONT.
_ASKED_FOR = frozenset({1, 2, 9, 15, 18})
_SIZES = (1, 8)
Key = tuple[str, str]
Alike = tuple[str, int, str, int, str]


@dataclass(slots=True)
class _Group:
    """Jobs that can be compared: of one user, partition, size class and day."""

    jobs: int = 0
    failed: int = 0
    there: dict[str, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))


def failed(exit_status: int) -> bool:
    """Whether a job ended in a way that nobody asked for, by its wait status."""
    signal = exit_status & 0x7F
    return signal not in _ASKED_FOR if signal else exit_status != 0


def failing(connection: Connection, since: datetime) -> tuple[FailingNode, ...]:
    """The nodes whose jobs failed more often than chance would make them, the least likely first."""
    groups = _read(connection, since)
    at: dict[Key, list[tuple[Alike, _Group]]] = defaultdict(list)
    for alike, group in groups.items():
        # Where all of a user's jobs failed, or none, no node can stand out.
        if 0 < group.failed < group.jobs:
            for node, (jobs, _) in group.there.items():
                if jobs < group.jobs:
                    at[(alike[0], node)].append((alike, group))
    found = [made for key, mine in at.items() if (made := _judged(key, mine, len(at))) is not None]
    found.sort(key=lambda f: (f.chance, f.cluster, f.node))
    return tuple(found[:SHOWN])


def _judged(key: Key, mine: list[tuple[Alike, _Group]], nodes: int) -> FailingNode | None:
    node = key[1]
    strata = [Stratum(g.jobs, g.failed, g.there[node][0]) for _, g in mine]
    bad = sum(g.there[node][1] for _, g in mine)
    users = {alike[1] for alike, g in mine if g.there[node][1]}
    expected = sum(s.drawn * s.hits / s.total for s in strata)
    if bad < LEAST_FAILED or len(users) < LEAST_USERS or bad <= expected:
        return None
    chance = min(1.0, chance_among(bad, strata) * nodes)
    if chance > CHANCE:
        return None
    return FailingNode(
        cluster=key[0],
        node=node,
        jobs=sum(s.drawn for s in strata),
        failed=bad,
        expected=round(expected, 2),
        users=len(users),
        chance=chance,
    )


def _read(connection: Connection, since: datetime) -> dict[Alike, _Group]:
    refused = {
        (r.cluster, r.attempt)
        for r in connection.execute(
            select(starts.c.cluster, starts.c.attempt).where(starts.c.outcome == REFUSED, starts.c.at >= since)
        )
    }
    columns = ("cluster", "job_id", "restart_count", "uid", "partition_name", "nodelist", "ended_at", "exit_status")
    rows = connection.execute(
        select(*(job_facts.c[name] for name in columns))
        .where(
            job_facts.c.ended_at >= since,
            job_facts.c.exit_status.is_not(None),
            job_facts.c.uid.is_not(None),
            job_facts.c.nodelist.is_not(None),
        )
        .order_by(job_facts.c.ended_at.desc())
        .limit(JOBS_LIMIT)
    )
    groups: dict[Alike, _Group] = defaultdict(_Group)
    for r in rows:
        count = "x" if r.restart_count == NO_COUNT else r.restart_count
        names = _names(r.nodelist)
        if names and (r.cluster, f"{r.job_id}.{count}") not in refused:
            day = f"{r.ended_at:%Y-%m-%d}"
            alike = (r.cluster, int(r.uid), r.partition_name or "", _size(len(names)), day)
            _add(groups[alike], names, bad=failed(int(r.exit_status)))
    return groups


def _add(group: _Group, names: Iterable[str], *, bad: bool) -> None:
    group.jobs += 1
    group.failed += bad
    for name in names:
        group.there[name][0] += 1
        group.there[name][1] += bad


def _names(nodelist: str) -> tuple[str, ...]:
    try:
        return expand(nodelist, limit=NODES_LIMIT)
    except HostlistError:
        return ()


def _size(nodes: int) -> int:
    return next((n for n, most in enumerate(_SIZES) if nodes <= most), len(_SIZES))


def told(connection: Connection, since: datetime) -> Iterator[str]:
    """Why nothing can be said of failures, where that is so."""
    mine = (job_facts.c.ended_at >= since, job_facts.c.uid.is_not(None))
    if connection.execute(select(job_facts.c.job_id).where(*mine).limit(1)).first() is None:
        yield "ends of jobs are not told: PrologSlurmctld and EpilogSlurmctld are not ours"
