"""Every drain, resume or undo of a list of nodes is written down before its first write to Slurm, and found again."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from sqlalchemy import Connection, RowMapping, func, insert, select, update

from api.controller.operation_tables import operation_nodes, operations
from api.operation import OperationNode, OperationView
from api.ports import DrainRow
from api.store.database import Database
from checks.wire import clean
from slurm.reason import one_line
from slurm.state import NodeState

TEXT_LIMIT = 4000
REASON_LIMIT = 300
# What is written for a node before Slurm is asked; it stays where the server ended in between.
BEGUN = "begun"
Verb = Literal["drain", "resume", "undo"]


class OperationBook:
    """The operations of one cluster, one short transaction a call."""

    def __init__(self, database: Database, cluster: str) -> None:
        self._db, self._cluster = database, cluster

    def begin(
        self, verb: Verb, nodes: str, reason: str, actor: str, now: datetime, *, undoes: int | None = None
    ) -> int:
        """Write down that somebody asked for this; its number."""
        values = {"cluster": self._cluster, "verb": verb, "actor": actor, "at": now, "undoes": undoes}
        texts = {"nodes": one_line(nodes, TEXT_LIMIT), "reason": one_line(reason, REASON_LIMIT)}
        with self._db.begin() as connection:
            key = connection.execute(insert(operations).values(**values, **texts)).inserted_primary_key
        assert key is not None
        return int(key[0])

    def touches(self, number: int, node: str, drain: int | None, before: NodeState | None) -> None:
        """Write down, before Slurm is asked, which drain record the operation makes or ends on a node."""
        with self._db.begin() as connection:
            values = {"operation": number, "node": node, "outcome": BEGUN, "why": "", "drain": drain, "place": 0}
            connection.execute(insert(operation_nodes).values(before=_told(before), **values))

    def finish(self, number: int, rows: Sequence[DrainRow], *, undoes: int | None = None) -> None:
        """Write down what became of each node; an undo that changed something is noted beside what it undid."""
        with self._db.begin() as connection:
            known = set(
                connection.execute(
                    select(operation_nodes.c.node).where(operation_nodes.c.operation == number)
                ).scalars()
            )
            for place, row in enumerate(rows):
                values = {"outcome": row.outcome, "why": row.why, "place": place}
                if row.node in known:
                    mine = (operation_nodes.c.operation == number, operation_nodes.c.node == row.node)
                    connection.execute(update(operation_nodes).where(*mine).values(**values))
                else:
                    fresh = {"operation": number, "node": row.node, "drain": None, "before": _before(row)}
                    connection.execute(insert(operation_nodes).values(**fresh, **values))
            if undoes is not None and any(r.outcome in ("done", "failed") for r in rows):
                connection.execute(update(operations).where(operations.c.id == undoes).values(undone_by=number))

    def last(self, actor: str) -> OperationView | None:
        """The newest drain or resume of somebody that was not undone."""
        query = select(operations).where(
            operations.c.cluster == self._cluster,
            operations.c.actor == actor,
            operations.c.verb != "undo",
            operations.c.undone_by.is_(None),
        )
        with self._db.read() as connection:
            row = connection.execute(query.order_by(operations.c.id.desc()).limit(1)).mappings().first()
            return _view(connection, row) if row else None

    def one(self, number: int) -> OperationView | None:
        """One operation with its nodes."""
        query = select(operations).where(operations.c.cluster == self._cluster, operations.c.id == number)
        with self._db.read() as connection:
            row = connection.execute(query).mappings().first()
            return _view(connection, row) if row else None

    def listing(self, since: datetime | None, actor: str | None, before: int | None, limit: int) -> list[OperationView]:
        """Operations without their nodes, the newest first."""
        query = select(operations).where(operations.c.cluster == self._cluster)
        if since is not None:
            query = query.where(operations.c.at >= since)
        if actor is not None:
            query = query.where(operations.c.actor == actor)
        if before is not None:
            query = query.where(operations.c.id < before)
        with self._db.read() as connection:
            rows = connection.execute(query.order_by(operations.c.id.desc()).limit(limit)).mappings()
            return [_view(connection, row, whole=False) for row in rows]

    def count(self, actor: str, verb: Verb, since: datetime, *, node: str | None = None) -> int:
        """How many nodes somebody's operations have changed since a moment, those whose end is not known among them.

        With a ``node``: how often that one.
        """
        query = (
            select(func.count())
            .select_from(operation_nodes.join(operations, operations.c.id == operation_nodes.c.operation))
            .where(
                operations.c.cluster == self._cluster,
                operations.c.actor == actor,
                operations.c.verb == verb,
                operations.c.at >= since,
                operation_nodes.c.outcome.in_(("done", "failed", BEGUN)),
                *(() if node is None else (operation_nodes.c.node == node,)),
            )
        )
        with self._db.read() as connection:
            return int(connection.execute(query).scalar_one())


def _view(connection: Connection, row: RowMapping, *, whole: bool = True) -> OperationView:
    mine = operation_nodes.c.operation == row["id"]
    counted = connection.execute(
        select(operation_nodes.c.outcome, func.count().label("n")).where(mine).group_by(operation_nodes.c.outcome)
    )
    items: tuple[OperationNode, ...] = ()
    if whole:
        query = select(operation_nodes).where(mine).order_by(operation_nodes.c.place, operation_nodes.c.node)
        items = tuple(
            OperationNode(node=r.node, outcome=r.outcome, why=r.why, before=r.before, drain=r.drain)
            for r in connection.execute(query)
        )
    return OperationView(
        counts={r.outcome: int(r.n) for r in counted},
        items=items,
        **{name: row[name] for name in ("id", "cluster", "actor", "verb", "nodes", "reason", "at", "undoes")},
        undone_by=row["undone_by"],
    )


def _told(state: NodeState | None) -> str:
    reason = state.active_reason if state is not None else None
    return clean(f"{state or 'not known'}{f' {reason.text}' if reason else ''}")


def _before(row: DrainRow) -> str:
    return clean(f"{row.state or 'not known'} {row.reason}".strip())
