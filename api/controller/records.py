"""Drain records and permits are written before Slurm is, so that a restart at any step finds out what was meant."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import Connection, RowMapping, delete, insert, select, update

from api.controller.drain_record import OPEN, DrainRecord, DrainState, NewDrain, new_token
from api.controller.tables import drains, permits
from api.store.database import Database
from api.store.status import facts_of, read_inventory, read_status
from checks.judge.guard import PastDrain

__all__ = ["DrainRecord", "DrainState", "NewDrain", "NewPermit", "Records", "new_token"]


@dataclass(frozen=True, slots=True)
class NewPermit:
    """An answer to a permit request (``direct``) or a lease."""

    cluster: str
    node: str
    kind: Literal["direct", "lease"]
    codes: tuple[str, ...]
    granted: bool
    why: str
    expires_at: datetime
    drained: bool = False
    job: str = ""


class Records:
    """The controller's tables, one short transaction a call."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def intend(self, new: NewDrain, now: datetime) -> DrainRecord:
        """Write down a drain before it is asked of Slurm; an older open record stays until Slurm has taken this one."""
        with self._db.begin() as connection:
            result = connection.execute(
                insert(drains).values(
                    cluster=new.cluster,
                    node=new.node,
                    owner=new.owner,
                    actor=new.actor,
                    codes=list(new.codes),
                    checks=list(new.checks),
                    boot_seen="",
                    reason=new.reason,
                    token=new.token,
                    state="intent",
                    step=new.step,
                    why="",
                    boot_id=new.boot_id,
                    rounds=0,
                    permit=new.permit,
                    job=new.job,
                    gpus=list(new.gpus),
                    held=new.held,
                    weight=new.weight,
                    open=True,
                    created_at=now,
                    changed_at=now,
                )
            )
            key = result.inserted_primary_key
            assert key is not None
            return _one(connection, int(key[0]))

    def written(self, record: DrainRecord, now: datetime, why: str) -> DrainRecord:
        """Slurm holds this record's reason now, so any older open record of the node is no longer in force."""
        with self._db.begin() as connection:
            older = (drains.c.cluster == record.cluster, drains.c.node == record.node, drains.c.id < record.id)
            connection.execute(
                update(drains)
                .where(*older, drains.c.open.is_(True))
                .values(open=False, state="taken_over", why="replaced by a newer drain of ours", closed_at=now)
            )
        return self.change(record, now, state="draining", why=why)

    def change(self, record: DrainRecord, now: datetime, **values: object) -> DrainRecord:
        """Change an open record; a state that is no longer open closes it."""
        state = values.get("state", record.state)
        if state not in OPEN:
            values |= {"open": False, "closed_at": now}
        with self._db.begin() as connection:
            connection.execute(update(drains).where(drains.c.id == record.id).values(changed_at=now, **values))
            return _one(connection, record.id)

    def open_drains(self, cluster: str) -> dict[str, DrainRecord]:
        """Open records by node."""
        query = select(drains).where(drains.c.cluster == cluster, drains.c.open.is_(True)).order_by(drains.c.id)
        with self._db.read() as connection:
            return {row["node"]: _record(row) for row in connection.execute(query).mappings()}

    def listing(self, cluster: str | None = None, *, limit: int = 500, all_states: bool = False) -> list[DrainRecord]:
        """Newest first; without ``all_states`` only open ones."""
        query = select(drains).order_by(drains.c.id.desc()).limit(limit)
        if cluster is not None:
            query = query.where(drains.c.cluster == cluster)
        if not all_states:
            query = query.where(drains.c.open.is_(True))
        with self._db.read() as connection:
            return [_record(row) for row in connection.execute(query).mappings()]

    def one(self, number: int) -> DrainRecord | None:
        """The record with this number."""
        with self._db.read() as connection:
            row = connection.execute(select(drains).where(drains.c.id == number)).mappings().first()
            return _record(row) if row else None

    def last(self, cluster: str, node: str) -> DrainRecord | None:
        """The newest record of a node, open or closed."""
        query = select(drains).where(drains.c.cluster == cluster, drains.c.node == node)
        with self._db.read() as connection:
            row = connection.execute(query.order_by(drains.c.id.desc()).limit(1)).mappings().first()
            return _record(row) if row else None

    def ended_since(self, cluster: str, node: str, since: datetime) -> list[DrainRecord]:
        """Records of a node that were closed since a time and had been in force, the newest first."""
        query = select(drains).where(
            drains.c.cluster == cluster,
            drains.c.node == node,
            drains.c.open.is_(False),
            drains.c.state != "failed",
            drains.c.closed_at >= since,
        )
        with self._db.read() as connection:
            return [_record(row) for row in connection.execute(query.order_by(drains.c.id.desc())).mappings()]

    def closed_since(self, cluster: str, since: datetime) -> frozenset[str]:
        """Nodes of which a drain has ended since a time."""
        query = select(drains.c.node).where(drains.c.cluster == cluster, drains.c.closed_at >= since)
        with self._db.read() as connection:
            return frozenset(row.node for row in connection.execute(query))

    def on_probation(self, cluster: str) -> list[DrainRecord]:
        """Closed records whose node is, or was until just now, on probation."""
        query = select(drains).where(
            drains.c.cluster == cluster, drains.c.open.is_(False), drains.c.probation_until.is_not(None)
        )
        with self._db.read() as connection:
            return [_record(row) for row in connection.execute(query.order_by(drains.c.id)).mappings()]

    def end_probation(self, record: DrainRecord) -> None:
        """The node counts as in service like any other."""
        with self._db.begin() as connection:
            connection.execute(update(drains).where(drains.c.id == record.id).values(probation_until=None))

    def gpus(self, cluster: str, node: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The GPUs that the node's agent last named, and those once recorded for it."""
        with self._db.read() as connection:
            row = read_status(connection, cluster, node)
            facts = facts_of(row.facts) if row else None
            known = read_inventory(connection, cluster, node)
        return facts.gpus if facts else (), known.gpus if known else ()

    def of_job(self, cluster: str, node: str, job: str, since: datetime) -> list[DrainRecord]:
        """Records of a node that one job attempt led to since a time, those that failed left out."""
        query = select(drains).where(
            drains.c.cluster == cluster,
            drains.c.node == node,
            drains.c.job == job,
            drains.c.state != "failed",
            drains.c.created_at >= since,
        )
        with self._db.read() as connection:
            return [_record(row) for row in connection.execute(query).mappings()]

    def past(self, cluster: str, since: datetime) -> list[PastDrain]:
        """Automatic drains since a time, for the guard; intents count, failures do not."""
        query = select(drains).where(
            drains.c.cluster == cluster,
            drains.c.created_at >= since,
            drains.c.owner == "ours-automatic",
            drains.c.state != "failed",
        )
        with self._db.read() as connection:
            rows = connection.execute(query).mappings()
            return [PastDrain(r["node"], (r["codes"] or [""])[0], r["created_at"]) for r in rows]

    def add_permit(self, new: NewPermit, now: datetime) -> str:
        """Write down an answer to a permit request, or a lease; returns its id."""
        made = secrets.token_urlsafe(12)
        used = now if new.kind == "direct" and new.granted else None
        values = {name: getattr(new, name) for name in NewPermit.__dataclass_fields__} | {"codes": list(new.codes)}
        with self._db.begin() as connection:
            connection.execute(insert(permits).values(id=made, created_at=now, used_at=used, **values))
        return made

    def permits_of(self, cluster: str, node: str, since: datetime) -> list[RowMapping]:
        """Granted permits and leases of a node since a time, newest first."""
        query = (
            select(permits)
            .where(permits.c.cluster == cluster, permits.c.node == node, permits.c.granted.is_(True))
            .where(permits.c.created_at >= since)
            .order_by(permits.c.created_at.desc())
        )
        with self._db.read() as connection:
            return list(connection.execute(query).mappings())

    def live_leases(self, cluster: str, now: datetime) -> list[RowMapping]:
        """Leases that are neither used nor expired."""
        query = select(permits).where(
            permits.c.cluster == cluster,
            permits.c.kind == "lease",
            permits.c.used_at.is_(None),
            permits.c.expires_at > now,
        )
        with self._db.read() as connection:
            return list(connection.execute(query).mappings())

    def spend_lease(self, cluster: str, node: str, permit: str, job: str, now: datetime) -> bool:
        """Mark a lease of this node as spent on a job; False for another's, or one spent on another job."""
        mine = (permits.c.id == permit, permits.c.kind == "lease", permits.c.cluster == cluster, permits.c.node == node)
        with self._db.begin() as connection:
            connection.execute(update(permits).where(*mine, permits.c.used_at.is_(None)).values(used_at=now, job=job))
            found = connection.execute(select(permits.c.job).where(*mine)).first()
        return found is not None and found.job == job

    def forget_permits(self, before: datetime) -> None:
        """Delete permits and leases that ended before a time."""
        with self._db.begin() as connection:
            connection.execute(delete(permits).where(permits.c.expires_at < before))


def _one(connection: Connection, key: int) -> DrainRecord:
    return _record(connection.execute(select(drains).where(drains.c.id == key)).mappings().one())


def _record(row: RowMapping) -> DrainRecord:
    values = {name: row[name] for name in DrainRecord.__dataclass_fields__}
    for name in ("codes", "checks", "gpus"):
        values[name] = tuple(values[name] or ())
    return DrainRecord(**values)
