"""People and the controller read nodes, findings and history in bounded, ordered pages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, and_, func, or_, select, tuple_

from api.store.current import finding_of
from api.store.past import matching
from api.store.status import STALE_AFTER, facts_of
from api.store.tables import changes, findings, incidents, node_status
from api.store.views import ChangeView, FindingView, NodeFilter, NodeRow, NodeView
from checks.wire import Finding, Status, Verdict

EVER = datetime(2000, 1, 1, tzinfo=timezone.utc)


def node_rows(connection: Connection) -> list[NodeRow]:
    """Every node as the controller needs it."""
    rows = connection.execute(select(node_status).order_by(node_status.c.cluster, node_status.c.node))
    return [
        NodeRow(
            cluster=r.cluster,
            node=r.node,
            verdict=r.verdict,
            last_contact=r.last_contact,
            last_report=r.last_report,
            boot_id=r.boot_id,
            incarnation=r.incarnation,
            simulated=r.simulated,
            facts=facts_of(r.facts),
        )
        for r in rows
    ]


def nodes(
    connection: Connection, wanted: NodeFilter, after: tuple[str, str] | None, limit: int, now: datetime
) -> list[NodeView]:
    """Up to ``limit`` nodes behind ``after`` in the order of (cluster, node)."""
    query = select(node_status).where(*_conditions(wanted, now))
    if after is not None:
        query = query.where(tuple_(node_status.c.cluster, node_status.c.node) > tuple_(*after))
    query = query.order_by(node_status.c.cluster, node_status.c.node)
    past = None
    if wanted.past is not None and not wanted.past.empty:
        past = matching(connection, wanted.past, wanted.past.since or EVER)
    if wanted.names is None and past is None:
        return [node_view(r, now) for r in connection.execute(query.limit(limit))]
    # A list of names may be longer than a statement may have parameters, so the names are matched here.
    found: list[NodeView] = []
    for row in connection.execute(query):
        if (wanted.names is None or row.node in wanted.names) and (past is None or (row.cluster, row.node) in past):
            found.append(node_view(row, now))
        if len(found) == limit:
            break
    return found


def _conditions(wanted: NodeFilter, now: datetime) -> list[ColumnElement[bool]]:
    where: list[ColumnElement[bool]] = []
    stale = node_status.c.last_contact < now - STALE_AFTER
    if wanted.verdict == "unknown":
        where.append(or_(node_status.c.verdict == "unknown", stale))
    elif wanted.verdict is not None:
        where.append(and_(node_status.c.verdict == wanted.verdict, ~stale))
    if wanted.cluster is not None:
        where.append(node_status.c.cluster == wanted.cluster)
    if wanted.text:
        columns = (node_status.c.node, node_status.c.summary)
        where.append(or_(*(c.icontains(wanted.text, autoescape=True) for c in columns)))
    return where


def node_view(row: Row[Any], now: datetime) -> NodeView:
    """The row as people see it: silence for ten minutes makes it stale and unknown."""
    stale = now - row.last_contact > STALE_AFTER
    facts = facts_of(row.facts)
    return NodeView(
        cluster=row.cluster,
        node=row.node,
        verdict="unknown" if stale else row.verdict,
        data="stale" if stale else "fresh",
        summary=row.summary,
        wanted=row.wanted,
        fail=row.fail,
        warn=row.warn,
        unknown=row.unknown,
        ok=row.ok,
        profile=facts.profile if facts else "",
        gpu_model=facts.gpu_model if facts else "",
        boot_id=row.boot_id,
        agent_version=row.agent_version,
        policy_version=row.policy_version,
        simulated=row.simulated,
        wedged_lanes=tuple(msgspec.json.decode(row.wedged_lanes, type=list[str])),
        outbox_waiting=row.outbox_waiting,
        first_seen=row.first_seen,
        last_contact=row.last_contact,
        last_report=row.last_report,
    )


def all_current(
    connection: Connection, status: Status | None, code: str | None, after: tuple[str, ...] | None, limit: int | None
) -> list[FindingView]:
    """Current findings of all nodes in the order of (cluster, node, check, target, code)."""
    key = (findings.c.cluster, findings.c.node, findings.c.check_name, findings.c.target, findings.c.code)
    query = select(findings).order_by(*key)
    if after is not None:
        query = query.where(tuple_(*key) > tuple_(*after))
    if status is not None:
        query = query.where(findings.c.status == status)
    if code is not None:
        query = query.where(findings.c.code == code)
    return [_with_node(r, finding_of(r)) for r in connection.execute(query.limit(limit))]


def all_failing(connection: Connection, cluster: str, stricter: Sequence[str] = ()) -> dict[str, tuple[Finding, ...]]:
    """Findings that fail, by node; ``stricter``: codes that fail by policy whatever their check says of them."""
    by_policy = and_(findings.c.code.in_(stricter), findings.c.status.not_in(("ok", "skipped")))
    query = select(findings).where(or_(findings.c.status == "fail", by_policy), findings.c.cluster == cluster)
    failing: dict[str, list[Finding]] = {}
    for row in connection.execute(query.order_by(findings.c.node, findings.c.code, findings.c.target)):
        failing.setdefault(row.node, []).append(finding_of(row))
    return {node: tuple(found) for node, found in failing.items()}


def unanswered(connection: Connection, cluster: str) -> dict[str, int]:
    """On how many nodes each check is an open problem for want of an answer."""
    query = select(incidents.c.check_name, func.count(incidents.c.node.distinct())).where(
        incidents.c.cluster == cluster, incidents.c.kind == "unanswered", incidents.c.closed_at.is_(None)
    )
    return {check: int(nodes) for check, nodes in connection.execute(query.group_by(incidents.c.check_name))}


def _with_node(row: Row[Any], finding: Finding) -> FindingView:
    return FindingView(cluster=row.cluster, node=row.node, **msgspec.structs.asdict(finding))


def history(connection: Connection, cluster: str, node: str, before: int | None, limit: int) -> list[ChangeView]:
    """Changes of one node, the newest first."""
    query = select(changes).where(changes.c.cluster == cluster, changes.c.node == node)
    if before is not None:
        query = query.where(changes.c.id < before)
    return [
        ChangeView(
            id=r.id,
            check=r.check_name,
            target=r.target,
            old_status=r.old_status,
            old_code=r.old_code,
            status=r.status,
            code=r.code,
            blame=r.blame,
            message=r.message,
            observed_at=r.observed_at,
            at=r.at,
        )
        for r in connection.execute(query.order_by(changes.c.id.desc()).limit(limit))
    ]


def verdict_counts(connection: Connection, now: datetime) -> dict[tuple[str, Verdict], int]:
    """Nodes by cluster and verdict, stale ones as unknown."""
    stale = node_status.c.last_contact < now - STALE_AFTER
    rows = connection.execute(
        select(
            node_status.c.cluster, node_status.c.verdict, stale.label("stale"), func.count().label("nodes")
        ).group_by(node_status.c.cluster, node_status.c.verdict, stale)
    )
    counts: dict[tuple[str, Verdict], int] = {}
    for row in rows:
        key: tuple[str, Verdict] = (row.cluster, "unknown" if row.stale else row.verdict)
        counts[key] = counts.get(key, 0) + row.nodes
    return counts
