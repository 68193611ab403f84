"""Boots, drivers and parts are written down when a report shows another than before, and nodes are found by them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, func, insert, or_, select, update

from api.store.past_tables import node_events, node_parts
from api.store.past_views import PastFilter
from api.store.status import facts_of
from api.store.tables import changes, findings, node_status
from checks.wire import NodeFacts, Report
from slurm.reason import one_line

VALUE_LIMIT = 128
DETAIL_LIMIT = 500
LEAST_PREFIX = 6
Key = tuple[str, str]


def note(
    connection: Connection, before: tuple[str, NodeFacts | None] | None, fresh: Sequence[Report], now: datetime
) -> list[Report]:
    """Write down what these reports of one node show for the first time; ``before``: boot and facts until now.

    Gives the first report of each boot that was not the node's first.
    """
    boot, facts = before if before is not None else ("", None)
    booted = []
    for report in fresh:
        at = report.started_at
        if report.boot_id and report.boot_id != boot:
            if boot:
                event(connection, (report.cluster, report.node), "boot", report.boot_id, "came up anew", at)
                booted.append(report)
            boot = report.boot_id
        if report.facts is None:
            continue
        if facts is not None:
            _compared(connection, report, facts, report.facts)
        _parts(connection, report, report.facts, now)
        facts = report.facts
    return booted


def _compared(connection: Connection, report: Report, old: NodeFacts, new: NodeFacts) -> None:
    key, at = (report.cluster, report.node), report.started_at
    if new.driver and new.driver != old.driver:
        event(connection, key, "driver", new.driver, f"driver was {old.driver or 'not told'}", at)
    # A GPU that does not answer is no part that was taken out: only one that came tells of a swap.
    came, gone = sorted(set(new.gpus) - set(old.gpus)), sorted(set(old.gpus) - set(new.gpus))
    if not old.gpus or not came:
        return
    for part in came:
        event(connection, key, "part_in", part, f"in place of {', '.join(gone) or 'nothing'}", at)
    for part in gone:
        event(connection, key, "part_out", part, f"replaced by {', '.join(came)}", at)


def _parts(connection: Connection, report: Report, facts: NodeFacts, now: datetime) -> None:
    for part in sorted({one_line(p, VALUE_LIMIT) for p in facts.gpus if p}):
        key = {"cluster": report.cluster, "node": report.node, "part": part}
        where = [node_parts.c[name] == value for name, value in key.items()]
        if connection.execute(update(node_parts).where(*where).values(last_seen=now)).rowcount == 0:
            connection.execute(insert(node_parts).values(**key, first_seen=now, last_seen=now))


def event(connection: Connection, key: Key, kind: str, value: str, detail: str, at: datetime) -> None:
    """Append one event of a node."""
    texts = {"value": one_line(value, VALUE_LIMIT), "detail": one_line(detail, DETAIL_LIMIT)}
    connection.execute(insert(node_events).values(cluster=key[0], node=key[1], kind=kind, at=at, **texts))


def last_events(connection: Connection, cluster: str, kind: str) -> dict[str, tuple[str, str]]:
    """The newest event of a kind of every node: value and detail."""
    newest = (
        select(func.max(node_events.c.id))
        .where(node_events.c.cluster == cluster, node_events.c.kind == kind)
        .group_by(node_events.c.node)
    )
    rows = connection.execute(select(node_events).where(node_events.c.id.in_(newest)))
    return {r.node: (r.value, r.detail) for r in rows}


def matching(connection: Connection, wanted: PastFilter, since: datetime) -> frozenset[Key]:
    """The nodes of which everything asked for is true, each by an index; at least one thing must be asked for."""
    sets: list[set[Key]] = []
    if wanted.had is not None:
        sets.append(_had(connection, wanted.had, since))
    if wanted.part is not None:
        sets.append(_with_part(connection, wanted.part))
    if wanted.driver is not None:
        sets.append(_with_driver(connection, wanted.driver, since))
    for kind, value, least in (("slurm", "out", wanted.drained), ("boot", None, wanted.rebooted)):
        if least is not None:
            sets.append(_often(connection, kind, value, least, since))
    return frozenset(set.intersection(*sets)) if sets else frozenset()


def _had(connection: Connection, code: str, since: datetime) -> set[Key]:
    """Those where the code was seen since then, and those where it was there already and still is."""
    told = changes.c.code == code
    then = select(changes.c.cluster, changes.c.node).distinct().where(told, changes.c.at >= since)
    still = findings.c.status.in_(("fail", "warn", "unknown"))
    now = select(findings.c.cluster, findings.c.node).distinct().where(findings.c.code == code, still)
    return _keys(connection.execute(then)) | _keys(connection.execute(now))


def _with_part(connection: Connection, part: str) -> set[Key]:
    """By the whole name, or by its beginning where that is long enough to mean something."""
    same: list[ColumnElement[bool]] = [node_parts.c.part == part]
    if len(part) >= LEAST_PREFIX:
        same.append(node_parts.c.part.startswith(part, autoescape=True))
    return _keys(connection.execute(select(node_parts.c.cluster, node_parts.c.node).distinct().where(or_(*same))))


def _with_driver(connection: Connection, driver: str, since: datetime) -> set[Key]:
    """Those that run it now, and those to which it came since then."""
    found = {
        (r.cluster, r.node)
        for r in connection.execute(select(node_status.c.cluster, node_status.c.node, node_status.c.facts))
        if (facts := facts_of(r.facts)) is not None and facts.driver == driver
    }
    mine = (node_events.c.kind == "driver", node_events.c.value == driver, node_events.c.at >= since)
    return found | _keys(connection.execute(select(node_events.c.cluster, node_events.c.node).distinct().where(*mine)))


def _often(connection: Connection, kind: str, value: str | None, least: int, since: datetime) -> set[Key]:
    query = select(node_events.c.cluster, node_events.c.node).where(
        node_events.c.kind == kind, node_events.c.at >= since
    )
    if value is not None:
        query = query.where(node_events.c.value == value)
    query = query.group_by(node_events.c.cluster, node_events.c.node).having(func.count() >= least)
    return _keys(connection.execute(query))


def _keys(rows: Iterable[Row[Any]]) -> set[Key]:
    return {(str(r.cluster), str(r.node)) for r in rows}
