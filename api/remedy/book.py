"""The table of remedies, one short transaction a call, each change with its line of the audit."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime

from sqlalchemy import Connection, RowMapping, insert, select, update

from api.remedy.record import MOVES, OPEN, NewRemedy, RemedyRecord, RemedyState
from api.remedy.tables import remedies
from api.store.database import Database
from api.store.ledger import write_audit
from slurm.reason import one_line

WHY_LIMIT = 500
Announce = Callable[[], AbstractContextManager[Connection]]
# Given what was begun since a time, why no other may begin; empty: it may.
Limit = Callable[[Sequence[RemedyRecord]], str]


class Book:
    """What was planned, begun and ended; ``announce`` opens the transaction in which a change is written."""

    def __init__(self, database: Database, cluster: str, announce: Announce) -> None:
        self._db, self._cluster, self._announce = database, cluster, announce

    def plan(self, new: NewRemedy, now: datetime, since: datetime, limit: Limit) -> RemedyRecord | str:
        """Write a remedy down unless the limits, counted in the same transaction, say why not."""
        is_open = new.state in OPEN
        with self._announce() as connection:
            if why := limit(_since(connection, self._cluster, since)):
                return why
            mine = (remedies.c.cluster == self._cluster, remedies.c.slot == new.node)
            if is_open and connection.execute(select(remedies.c.id).where(*mine)).first() is not None:
                return "another remedy of this node is not over"
            number = connection.execute(
                insert(remedies)
                .values(
                    cluster=self._cluster,
                    node=new.node,
                    action=new.action,
                    codes=list(new.codes),
                    gpus=list(new.gpus),
                    actor=new.actor,
                    automatic=new.automatic,
                    token=new.token,
                    state=new.state,
                    why=one_line(new.why, WHY_LIMIT),
                    order_id=secrets.token_hex(8),
                    boot_id="",
                    open=is_open,
                    slot=new.node if is_open else None,
                    created_at=now,
                    changed_at=now,
                )
                .returning(remedies.c.id)
            ).scalar_one()
            said = f"{new.action} {','.join(new.gpus)} for {','.join(new.codes) or 'a person'}: {new.why}"
            write_audit(connection, now, new.actor, f"remedy {new.state}", new.node, said)
            return _one(connection, int(number))

    def move(
        self, record: RemedyRecord, now: datetime, state: RemedyState, why: str, *, boot_id: str | None = None
    ) -> RemedyRecord | None:
        """Take one step; None where it is no longer where we thought, and then nothing is changed."""
        if state not in MOVES.get(record.state, frozenset()):
            raise ValueError(f"remedy {record.id}: {record.state} -> {state}")
        values: dict[str, object] = {"state": state, "why": one_line(why, WHY_LIMIT), "changed_at": now}
        if state not in OPEN:
            values |= {"open": False, "slot": None}
        if state == "running":
            values |= {"started_at": now, "boot_id": boot_id or ""}
        mine = (remedies.c.id == record.id, remedies.c.state == record.state)
        with self._announce() as connection:
            if not connection.execute(update(remedies).where(*mine).values(**values)).rowcount:
                return None
            write_audit(connection, now, "controller", f"remedy {state}", record.node, f"{record.action}: {why}")
            return _one(connection, record.id)

    def open(self) -> list[RemedyRecord]:
        """What is not over, the oldest first."""
        query = select(remedies).where(remedies.c.cluster == self._cluster, remedies.c.open.is_(True))
        with self._db.read() as connection:
            return [_record(r) for r in connection.execute(query.order_by(remedies.c.id)).mappings()]

    def since(self, node: str, since: datetime) -> list[RemedyRecord]:
        """What was last changed on a node since a time, the oldest first."""
        mine = (remedies.c.cluster == self._cluster, remedies.c.node == node, remedies.c.changed_at >= since)
        with self._db.read() as connection:
            return [
                _record(r) for r in connection.execute(select(remedies).where(*mine).order_by(remedies.c.id)).mappings()
            ]

    def listing(self, *, node: str | None = None, limit: int = 200) -> list[RemedyRecord]:
        """The newest first."""
        query = select(remedies).where(remedies.c.cluster == self._cluster).order_by(remedies.c.id.desc()).limit(limit)
        if node is not None:
            query = query.where(remedies.c.node == node)
        with self._db.read() as connection:
            return [_record(r) for r in connection.execute(query).mappings()]


def _since(connection: Connection, cluster: str, since: datetime) -> list[RemedyRecord]:
    query = select(remedies).where(
        remedies.c.cluster == cluster, (remedies.c.created_at >= since) | remedies.c.open.is_(True)
    )
    return [_record(r) for r in connection.execute(query.order_by(remedies.c.id)).mappings()]


def _one(connection: Connection, number: int) -> RemedyRecord:
    return _record(connection.execute(select(remedies).where(remedies.c.id == number)).mappings().one())


def _record(row: RowMapping) -> RemedyRecord:
    values = {name: row[name] for name in RemedyRecord.__dataclass_fields__}
    return RemedyRecord(**{**values, "codes": tuple(row["codes"]), "gpus": tuple(row["gpus"])})
