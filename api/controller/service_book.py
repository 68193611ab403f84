"""Every node's state and every move is written down, so that a restart finds out where each node stood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec
from sqlalchemy import RowMapping, insert, select, update

from api.controller.fence import Fence
from api.controller.service_tables import node_service, service_moves
from api.service_port import MoveView, ServiceState
from api.store.database import Database
from checks.wire import Scalar

Evidence = Mapping[str, Scalar]


@dataclass(frozen=True, slots=True)
class Stands:
    """A node's row: its state, and what was last seen of it that tells whether it has changed since."""

    node: str
    state: ServiceState
    since: datetime
    why: str
    evidence: str
    hands_off: str
    boot_id: str
    absent_since: datetime | None


@dataclass(frozen=True, slots=True)
class Move:
    """One step of a node."""

    node: str
    old: str
    new: ServiceState
    why: str
    evidence: str


class ServiceBook:
    """What is in force, as read last; written through. The snapshot is replaced as a whole."""

    def __init__(self, database: Database, cluster: str, fence: Fence) -> None:
        self._db, self._cluster, self._fence = database, cluster, fence
        self._rows: Mapping[str, Stands] | None = None

    def rows(self) -> Mapping[str, Stands]:
        """Every node that was ever seen, by name."""
        if self._rows is None:
            query = select(node_service).where(node_service.c.cluster == self._cluster)
            with self._db.read() as connection:
                self._rows = {row["node"]: _stands(row) for row in connection.execute(query).mappings()}
        return self._rows

    def forget(self) -> None:
        """Read anew: another server may have written meanwhile."""
        self._rows = None

    def write(self, rows: Sequence[Stands], moves: Sequence[Move], at: datetime) -> None:
        """Rows that are new or have changed, with the moves that brought them there, in one transaction."""
        known = self.rows()
        fresh = [_values(self._cluster, row) for row in rows if row.node not in known]
        with self._fence.announcing() as connection:
            if fresh:
                connection.execute(insert(node_service), fresh)
            for row in rows:
                if row.node in known:
                    mine = (node_service.c.cluster == self._cluster, node_service.c.node == row.node)
                    connection.execute(update(node_service).where(*mine).values(**_values(self._cluster, row)))
            if moves:
                connection.execute(insert(service_moves), [_move(self._cluster, move, at) for move in moves])
        self._rows = {**known, **{row.node: row for row in rows}}

    def moves(self, cluster: str, node: str | None, before: int | None, limit: int) -> list[MoveView]:
        """Moves, the newest first."""
        query = select(service_moves).where(service_moves.c.cluster == cluster)
        if node is not None:
            query = query.where(service_moves.c.node == node)
        if before is not None:
            query = query.where(service_moves.c.id < before)
        with self._db.read() as connection:
            rows = connection.execute(query.order_by(service_moves.c.id.desc()).limit(limit)).mappings()
            return [_view(row) for row in rows]


def told(evidence: str) -> dict[str, Scalar]:
    """The evidence that a row holds."""
    return msgspec.json.decode(evidence, type=dict[str, Scalar])


def _stands(row: RowMapping) -> Stands:
    return Stands(**{name: row[name] for name in Stands.__dataclass_fields__})


def _values(cluster: str, row: Stands) -> dict[str, object]:
    return {"cluster": cluster, **{name: getattr(row, name) for name in Stands.__dataclass_fields__}}


def _move(cluster: str, move: Move, at: datetime) -> dict[str, object]:
    return {"cluster": cluster, "at": at, **{name: getattr(move, name) for name in Move.__dataclass_fields__}}


def _view(row: RowMapping) -> MoveView:
    same = ("id", "cluster", "node", "old", "new", "why", "at")
    return MoveView(evidence=told(row["evidence"]), **{name: row[name] for name in same})
