"""Drain records and permits are written before Slurm is, so that a restart at any step finds out what was meant."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Connection, RowMapping, func, insert, select, update

from api.controller.drain_record import FORGETTABLE, OPEN, REPLACED, DrainRecord, DrainState, NewDrain, Said, new_token
from api.controller.fence import Fence
from api.controller.permit_records import NewPermit, PermitRecords
from api.controller.tables import drains
from api.store.database import Database
from api.store.ledger import write_audit
from api.store.parts import swapped_since
from api.store.status import facts_of, read_inventory, read_status
from checks.judge.guard import PastDrain

__all__ = ["DrainRecord", "DrainState", "NewDrain", "NewPermit", "Records", "Said", "new_token"]


class Records(PermitRecords):
    """The controller's tables, one short transaction a call; drains are changed only under the present epoch."""

    def __init__(self, database: Database, fence: Fence) -> None:
        super().__init__(database)
        self._fence = fence

    def intend(self, new: NewDrain, now: datetime, *, epoch: int | None = None) -> DrainRecord:
        """Write down a drain before it is asked of Slurm; an older open record stays until Slurm has taken this one."""
        with self._fence.announcing(epoch) as connection:
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

    def written(
        self, record: DrainRecord, now: datetime, why: str, *, said: Said | None = None, boot: datetime | None = None
    ) -> DrainRecord:
        """Slurm holds this record's reason now, so any older open record of the node is no longer in force."""
        older = (drains.c.cluster == record.cluster, drains.c.node == record.node, drains.c.id < record.id)
        with self._fence.announcing() as connection:
            before = update(drains).where(*older, drains.c.open.is_(True))
            meant = {"state": "failed", "why": f"{REPLACED} before slurm took it"}
            stood = {"state": "taken_over", "why": REPLACED}
            for which, ended in ((drains.c.state == "intent", meant), (drains.c.state != "intent", stood)):
                connection.execute(before.where(which).values(open=False, closed_at=now, **ended))
            values = {"state": "draining", "why": why, "slurm_boot": boot}
            return _changed(connection, record, now, values, said)

    def change(
        self,
        record: DrainRecord,
        now: datetime,
        *,
        said: Said | None = None,
        epoch: int | None = None,
        **values: object,
    ) -> DrainRecord:
        """Change an open record, with its line of the audit; a state that is no longer open closes it.

        One that somebody else has closed meanwhile stays as it is, and so does the audit.
        """
        if values.get("state", record.state) not in OPEN:
            values |= {"open": False, "closed_at": now}
        with self._fence.announcing(epoch) as connection:
            return _changed(connection, record, now, values, said)

    def reopen(self, record: DrainRecord, now: datetime, state: DrainState, why: str, *, said: Said) -> DrainRecord:
        """A drain that was over is in force again; its way back begins anew."""
        values = {"state": state, "why": why, "open": True, "closed_at": None, "rounds": 0}
        with self._fence.announcing() as connection:
            again = update(drains).where(drains.c.id == record.id, drains.c.open.is_(False))
            unasked = {"order_id": None, "order_at": None, "probation_until": None}
            if connection.execute(again.values(changed_at=now, **unasked, **values)).rowcount:
                write_audit(connection, now, said.actor, said.action, record.node, said.detail)
            return _one(connection, record.id)

    def by_token(self, token: str) -> DrainRecord | None:
        """The record that a reason's token names, open or not."""
        with self._db.read() as connection:
            row = connection.execute(select(drains).where(drains.c.token == token)).mappings().first()
            return _record(row) if row else None

    def outlived(self, cluster: str, serving: frozenset[str], boot: datetime) -> None:
        """Each node's last drain of ours that is over and stayed so under the slurmctld that started at ``boot``.

        From then on a reason of ours that comes back there is somebody's hand, not Slurm's bad memory.
        """
        last = select(func.max(drains.c.id)).where(drains.c.cluster == cluster).group_by(drains.c.node)
        over = (drains.c.id.in_(last), drains.c.open.is_(False), drains.c.state.in_(FORGETTABLE))
        with self._fence.announcing() as connection:
            found = connection.execute(select(drains.c.id, drains.c.node, drains.c.slurm_boot).where(*over)).all()
            stale = [row.id for row in found if row.node in serving and row.slurm_boot != boot]
            for first in range(0, len(stale), 500):
                some = drains.c.id.in_(stale[first : first + 500])
                connection.execute(update(drains).where(some).values(slurm_boot=boot))

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

    def other_parts(self, record: DrainRecord) -> str:
        """Which parts beside GPUs took another's place since the drain; GPUs are told by what stood there before."""
        with self._db.read() as connection:
            rows = swapped_since(connection, record.cluster, record.node, record.created_at)
        return ", ".join(f"{r.kind} in {r.slot} is {r.serial or r.uuid} now" for r in rows[:8])

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


def _changed(
    connection: Connection, record: DrainRecord, now: datetime, values: Mapping[str, object], said: Said | None
) -> DrainRecord:
    mine = update(drains).where(drains.c.id == record.id, drains.c.open.is_(True))
    if connection.execute(mine.values(changed_at=now, **values)).rowcount and said is not None:
        write_audit(connection, now, said.actor, said.action, record.node, said.detail)
    return _one(connection, record.id)


def _one(connection: Connection, key: int) -> DrainRecord:
    return _record(connection.execute(select(drains).where(drains.c.id == key)).mappings().one())


def _record(row: RowMapping) -> DrainRecord:
    values = {name: row[name] for name in DrainRecord.__dataclass_fields__}
    for name in ("codes", "checks", "gpus"):
        values[name] = tuple(values[name] or ())
    return DrainRecord(**values)
