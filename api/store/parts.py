"""A part has a row for each slot that it stood in; a part that only does not answer still stands where it stood."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, insert, or_, select, update

from api.store.part_tables import part_slots
from checks.wire import NodeFacts, Part, Report
from slurm.reason import one_line

PARTS_LIMIT = 256
_KINDS = frozenset({"gpu", "hca", "nic", "board"})
_COLUMNS = ("kind", "slot", "uuid", "serial", "model")


def note_parts(connection: Connection, before: NodeFacts | None, fresh: Sequence[Report], now: datetime) -> None:
    """Write down which parts these reports of one node show where others stood; ``before``: the facts until now."""
    known = before.parts if before is not None else ()
    for report in fresh:
        if report.facts is None or report.facts.parts == known:
            continue
        known = report.facts.parts
        there = {(r.kind, r.slot): r for r in _standing(connection, report.cluster, report.node)}
        for part in _alone([_bounded(p) for p in known[:PARTS_LIMIT]]):
            if part.kind in _KINDS and (part.serial or part.uuid):
                _stands(connection, report, part, there.get((part.kind, part.slot)), now)


def _standing(connection: Connection, cluster: str, node: str) -> Sequence[Row[Any]]:
    mine = (part_slots.c.cluster == cluster, part_slots.c.node == node, part_slots.c.until.is_(None))
    return connection.execute(select(part_slots).where(*mine)).all()


def _bounded(part: Part) -> Part:
    return Part(**{name: one_line(getattr(part, name), 128) for name in Part.__struct_fields__})


def _alone(parts: Sequence[Part]) -> list[Part]:
    """The parts, without a serial number that several of a node share: two GPUs of one board, as on GB200."""
    told = Counter((p.kind, p.serial) for p in parts if p.serial)
    shared = [p.uuid != "" and told[p.kind, p.serial] > 1 for p in parts]
    return [msgspec.structs.replace(p, serial="") if s else p for p, s in zip(parts, shared, strict=True)]


def _stands(connection: Connection, report: Report, part: Part, there: Row[Any] | None, now: datetime) -> None:
    if there is not None and same(there, part):
        if (there.uuid, there.serial) != (part.uuid, part.serial):
            told = {"uuid": part.uuid or there.uuid, "serial": part.serial or there.serial}
            connection.execute(update(part_slots).where(part_slots.c.id == there.id).values(**told))
        return
    gone = [part_slots.c.kind == part.kind, part_slots.c.until.is_(None), _is(part)]
    connection.execute(update(part_slots).where(*gone).values(until=now))
    if there is not None:
        connection.execute(update(part_slots).where(part_slots.c.id == there.id).values(until=now))
    values = {name: getattr(part, name) for name in _COLUMNS}
    connection.execute(
        insert(part_slots).values(
            cluster=report.cluster,
            node=report.node,
            since=now,
            replaced=there.id if there is not None else None,
            looked=there is None,
            **values,
        )
    )


def same(row: Row[Any], part: Part) -> bool:
    """Whether a row is about this part: by serial number where both tell one, else by UUID."""
    if row.serial and part.serial:
        return bool(row.serial == part.serial)
    return bool(row.uuid == part.uuid)


def _is(part: Part) -> ColumnElement[bool]:
    by: list[ColumnElement[bool]] = []
    if part.serial:
        by.append(part_slots.c.serial == part.serial)
    if part.uuid:
        by.append(part_slots.c.uuid == part.uuid)
    return or_(*by)


def of_node(connection: Connection, cluster: str, node: str) -> Sequence[Row[Any]]:
    """Every part that ever stood in a node, those that stand there now first."""
    query = select(part_slots).where(part_slots.c.cluster == cluster, part_slots.c.node == node)
    rows = connection.execute(query.order_by(part_slots.c.kind, part_slots.c.slot, part_slots.c.id.desc())).all()
    return sorted(rows, key=lambda r: r.until is not None)


def unlooked(connection: Connection, cluster: str) -> Sequence[Row[Any]]:
    """Swaps that have not led to a look yet."""
    query = select(part_slots).where(part_slots.c.cluster == cluster, part_slots.c.looked.is_(False))
    return connection.execute(query.order_by(part_slots.c.id)).all()


def looked(connection: Connection, numbers: Sequence[int]) -> None:
    """These swaps have led to a look."""
    connection.execute(update(part_slots).where(part_slots.c.id.in_(numbers)).values(looked=True))


def by_id(connection: Connection, numbers: Sequence[int]) -> dict[int, Row[Any]]:
    """Rows by their number."""
    rows = connection.execute(select(part_slots).where(part_slots.c.id.in_(numbers)))
    return {r.id: r for r in rows}


def swapped_since(connection: Connection, cluster: str, node: str, since: datetime) -> Sequence[Row[Any]]:
    """Parts other than GPUs that took another's place in a node since a time."""
    mine = (part_slots.c.cluster == cluster, part_slots.c.node == node, part_slots.c.since >= since)
    query = select(part_slots).where(*mine, part_slots.c.replaced.is_not(None), part_slots.c.kind != "gpu")
    return connection.execute(query.order_by(part_slots.c.id)).all()


def came(connection: Connection, cluster: str, since: datetime, limit: int) -> Sequence[Row[Any]]:
    """Parts that came into a slot since a time, the newest first."""
    query = select(part_slots).where(part_slots.c.cluster == cluster, part_slots.c.since >= since)
    return connection.execute(query.order_by(part_slots.c.id.desc()).limit(limit)).all()


def before(connection: Connection, row: Row[Any]) -> Row[Any] | None:
    """Where this part stood before it came into the slot of this row."""
    part = Part(kind=row.kind, slot=row.slot, uuid=row.uuid, serial=row.serial)
    query = select(part_slots).where(part_slots.c.kind == row.kind, part_slots.c.id < row.id, _is(part))
    return connection.execute(query.order_by(part_slots.c.id.desc()).limit(1)).first()
