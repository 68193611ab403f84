"""One node's past in one list: findings that changed, jobs refused, drains, boots, parts, and what people did."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, Table, select

from api.controller.operation_tables import operation_nodes, operations
from api.controller.tables import drains
from api.store.job_tables import attributions, starts
from api.store.past_tables import node_events
from api.store.past_views import TimelineItem
from api.store.starts import REFUSED
from api.store.tables import changes

_KINDS = {"boot": "reboot", "driver": "driver", "part_in": "part", "part_out": "part", "slurm": "slurm"}


def timeline(
    connection: Connection, cluster: str, node: str, since: datetime | None, until: datetime | None, limit: int
) -> list[TimelineItem]:
    """What happened on the node, the newest first."""
    span = _Span(connection, cluster, node, since, until, limit)
    items = [*_changes(span), *_events(span), *_refused(span), *_drains(span), *_began(span), *_operations(span)]
    items.sort(key=lambda item: item.at, reverse=True)
    return items[:limit]


class _Span:
    """The newest rows of one table that speak of the node within the time asked for."""

    def __init__(
        self,
        connection: Connection,
        cluster: str,
        node: str,
        since: datetime | None,
        until: datetime | None,
        limit: int,
    ) -> None:
        self.connection, self.cluster, self.node, self.limit = connection, cluster, node, limit
        self._since, self._until = since, until

    def rows(self, table: Table, at: str, *where: ColumnElement[bool]) -> Iterator[Row[Any]]:
        """Rows by the time in column ``at``."""
        query: Select[Any] = select(table).where(table.c.cluster == self.cluster, table.c.node == self.node, *where)
        if self._since is not None:
            query = query.where(table.c[at] >= self._since)
        if self._until is not None:
            query = query.where(table.c[at] < self._until)
        yield from self.connection.execute(query.order_by(table.c[at].desc()).limit(self.limit))

    def operations(self) -> Iterator[Row[Any]]:
        """What people did, each with its part of it."""
        query = (
            select(operations, operation_nodes.c.outcome, operation_nodes.c.why)
            .join(operation_nodes, operations.c.id == operation_nodes.c.operation)
            .where(operations.c.cluster == self.cluster, operation_nodes.c.node == self.node)
        )
        if self._since is not None:
            query = query.where(operations.c.at >= self._since)
        if self._until is not None:
            query = query.where(operations.c.at < self._until)
        yield from self.connection.execute(query.order_by(operations.c.id.desc()).limit(self.limit))


def _changes(span: _Span) -> Iterator[TimelineItem]:
    for r in span.rows(changes, "at"):
        what = f"{r.old_code or 'ok'} -> {r.code}" if r.old_code != r.code else r.code
        detail = f"{r.check_name} {r.target}: {r.message}"
        yield TimelineItem(at=r.at, kind="finding", what=what, detail=detail)


def _events(span: _Span) -> Iterator[TimelineItem]:
    for r in span.rows(node_events, "at"):
        kind, value = r.kind, r.value
        what = {"part_in": f"{value} came", "part_out": f"{value} went", "boot": "came up anew"}.get(kind, value)
        yield TimelineItem(at=r.at, kind=_KINDS.get(kind, kind), what=what, detail="" if kind == "boot" else r.detail)


def _refused(span: _Span) -> Iterator[TimelineItem]:
    for r in span.rows(starts, "at", starts.c.outcome == REFUSED):
        yield TimelineItem(at=r.at, kind="job", what=f"job {r.attempt} refused", detail=r.detail, job_id=r.job_id)


def _began(span: _Span) -> Iterator[TimelineItem]:
    for r in span.rows(attributions, "began_at"):
        what, detail = f"{r.code} began during job {r.attempt}", f"{r.target}: {r.message}"
        yield TimelineItem(at=r.began_at, kind="job", what=what, detail=detail, job_id=r.job_id)


def _drains(span: _Span) -> Iterator[TimelineItem]:
    for r in span.rows(drains, "created_at"):
        detail = f"{r.reason}; by {r.actor}"
        yield TimelineItem(at=r.created_at, kind="drain", what="drained by us", detail=detail)
        if r.closed_at is not None:
            what = r.state.replace("_", " ")
            yield TimelineItem(at=r.closed_at, kind="drain", what=what, detail=r.why)


def _operations(span: _Span) -> Iterator[TimelineItem]:
    for r in span.operations():
        what = f"operation {r.id}: {r.verb} by {r.actor}"
        detail = f"{r.outcome}: {r.why or r.reason}"
        yield TimelineItem(at=r.at, kind="person", what=what, detail=detail)
