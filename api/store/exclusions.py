"""Nodes that users exclude by hand are counted by distinct users and days; who they are is told to nobody."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import Connection, func, insert, select, update

from api.store.job_tables import exclusions
from api.store.lemon_views import ExcludedNode
from slurm.exclusions import Exclusion

# One user alone may have a reason of his own, and would be known by the number.
LEAST_USERS = 2
SHOWN = 100


def record(connection: Connection, cluster: str, found: Iterable[Exclusion], now: datetime, largest: int) -> int:
    """Note who excludes which node today; a job that excludes more than ``largest`` nodes speaks of none of them."""
    pairs = {(node, job.uid) for job in found if len(job.nodes) <= largest for node in job.nodes}
    day = f"{now:%Y-%m-%d}"
    for node, uid in sorted(pairs):
        key = {"cluster": cluster, "node": node, "uid": uid, "day": day}
        where = [exclusions.c[name] == value for name, value in key.items()]
        if connection.execute(update(exclusions).where(*where).values(seen_at=now)).rowcount == 0:
            connection.execute(insert(exclusions).values(**key, seen_at=now))
    return len(pairs)


def excluded(connection: Connection, since: datetime) -> tuple[ExcludedNode, ...]:
    """Nodes that several users exclude, those with the most users first."""
    users = func.count(exclusions.c.uid.distinct())
    query = (
        select(
            exclusions.c.cluster,
            exclusions.c.node,
            users.label("users"),
            func.count(exclusions.c.day.distinct()).label("days"),
            func.max(exclusions.c.seen_at).label("last"),
        )
        .where(exclusions.c.seen_at >= since)
        .group_by(exclusions.c.cluster, exclusions.c.node)
        .having(users >= LEAST_USERS)
        .order_by(users.desc(), exclusions.c.cluster, exclusions.c.node)
        .limit(SHOWN)
    )
    return tuple(
        ExcludedNode(cluster=r.cluster, node=r.node, users=int(r.users), days=int(r.days), last_seen=r.last)
        for r in connection.execute(query)
    )
