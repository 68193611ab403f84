"""The swap report: which part took whose place where, after which drain, where it came from, and verified or not."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, Row, or_, select

from api.controller.core import Core
from api.controller.service_tables import node_looks
from api.controller.tables import drains
from api.service_port import PartView, SwapView
from api.store import parts
from api.store.database import Database
from checks.wire import clean

ROWS_LIMIT = 20_000
Verified = Literal["verified", "pending", "unverified", "failed"]


def part_views(database: Database, cluster: str, node: str) -> list[PartView]:
    """The parts of a node with their history."""
    with database.read() as connection:
        return [_part(row) for row in parts.of_node(connection, cluster, node)]


def swap_views(core: Core, database: Database, since: datetime) -> list[SwapView]:
    """Every swap and move of a part since a time, the newest first; what was there at first sight is none."""
    with database.read() as connection:
        rows = parts.came(connection, core.cluster, since, ROWS_LIMIT)
        old = parts.by_id(connection, [r.replaced for r in rows if r.replaced is not None])
        found = [(r, old.get(r.replaced), _elsewhere(connection, r)) for r in rows]
        return [_swap(connection, *each) for each in found if each[1] is not None or each[2] is not None]


def _elsewhere(connection: Connection, row: Row[Any]) -> Row[Any] | None:
    was = parts.before(connection, row)
    return was if was is not None and (was.cluster, was.node, was.slot) != (row.cluster, row.node, row.slot) else None


def _swap(connection: Connection, row: Row[Any], old: Row[Any] | None, was: Row[Any] | None) -> SwapView:
    drain = _drain(connection, row.cluster, row.node, row.since)
    return SwapView(
        cluster=row.cluster,
        node=row.node,
        at=row.since,
        old=_part(old) if old is not None else None,
        new=_part(row),
        drain=f"{', '.join(drain.codes) or 'by ' + drain.actor}" if drain is not None else "",
        drained_at=drain.created_at if drain is not None else None,
        verified=_verified(connection, row, drain),
        came_from=_told(connection, was) if was is not None else "",
    )


def _drain(connection: Connection, cluster: str, node: str, at: datetime) -> Row[Any] | None:
    """The drain of the node that was in force at a time."""
    mine = (drains.c.cluster == cluster, drains.c.node == node, drains.c.state != "failed", drains.c.created_at <= at)
    lasting = or_(drains.c.closed_at.is_(None), drains.c.closed_at >= at)
    return connection.execute(select(drains).where(*mine, lasting).order_by(drains.c.id.desc()).limit(1)).first()


def _verified(connection: Connection, row: Row[Any], drain: Row[Any] | None) -> Verified:
    if drain is not None:
        return "pending" if drain.open else "verified" if drain.state == "resumed" else "unverified"
    mine = (node_looks.c.cluster == row.cluster, node_looks.c.node == row.node, node_looks.c.wanted_at >= row.since)
    look = connection.execute(select(node_looks).where(*mine)).first()
    if look is None or look.result == "silent":
        return "unverified"
    words: dict[str, Verified] = {"clean": "verified", "bad": "failed"}
    return words.get(look.result, "pending")


def _told(connection: Connection, was: Row[Any]) -> str:
    """Where a part stood before, and whether its node was drained when it left."""
    left = was.until or was.since
    drain = _drain(connection, was.cluster, was.node, left)
    why = f", drained there for {', '.join(drain.codes)}" if drain is not None and drain.codes else ""
    return clean(f"was in {was.node} ({was.slot}) until {left:%Y-%m-%d %H:%M} UTC{why}", 300)


def _part(row: Row[Any]) -> PartView:
    return PartView(**{name: getattr(row, name) for name in PartView.__struct_fields__})


def told(rows: Sequence[Row[Any]]) -> str:
    """A few swaps in one line: kind, slot and the new part's number."""
    said = [f"{r.kind} in {r.slot} is {r.serial or r.uuid} now" for r in rows[:4]]
    more = f" and {len(rows) - 4} more" if len(rows) > 4 else ""
    return clean(f"part swapped: {'; '.join(said)}{more}", 300)
