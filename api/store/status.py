"""A node has one row of status: what its findings come to, and when it was last heard of."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, insert, select, update

from api.store.current import Current
from api.store.tables import inventory, node_status
from checks.judge.context import Context
from checks.judge.policy import Policy
from checks.judge.verdict import judged, verdict
from checks.wire import Decision, NodeFacts, PollRequest, Report, Verdict
from slurm.reason import one_line

STALE_AFTER = timedelta(minutes=10)
_EMPTY: dict[str, object] = {
    "verdict": "unknown",
    "reported_verdict": "unknown",
    "wanted": "admit",
    "summary": "",
    "fail": 0,
    "warn": 0,
    "unknown": 0,
    "ok": 0,
    "skipped": 0,
    "incarnation": "",
    "boot_id": "",
    "agent_version": "",
    "policy_version": "",
    "simulated": False,
    "wedged_lanes": "[]",
    "outbox_waiting": 0,
}
_ORDER = {"fail": 0, "warn": 1, "unknown": 2}


def read_status(connection: Connection, cluster: str, node: str) -> Row[Any] | None:
    """The row of one node."""
    where = (node_status.c.cluster == cluster, node_status.c.node == node)
    return connection.execute(select(node_status).where(*where)).first()


def server_verdict(current: Current, reported: Verdict, policy: Policy) -> Verdict:
    """What the stored findings come to; only the agent knows which checks are required, so its unknown counts."""
    if not current:
        return "unknown"
    found = verdict(judged(tuple(current.values()), policy), Context(occasion="interval"))
    return "unknown" if found == "healthy" and reported == "unknown" else found


def from_findings(current: Current, policy: Policy, reported: Verdict) -> dict[str, object]:
    """The columns that follow from the findings."""
    seen = judged(tuple(current.values()), policy)
    counts = {status: sum(f.status == status for f in seen) for status in ("fail", "warn", "unknown", "ok", "skipped")}
    # A part by its name says more than what follows from it for the node, such as a number too low.
    found = (f for f in seen if f.status in _ORDER)
    worst = sorted(found, key=lambda f: (_ORDER[f.status], f.target == "node", f.code, f.target))
    summary = f"{worst[0].code} {worst[0].target}: {worst[0].message}" if worst else ""
    return {"verdict": server_verdict(current, reported, policy), "summary": one_line(summary, 512), **counts}


def from_report(report: Report, decision: Decision | None) -> dict[str, object]:
    """The columns that one report says outright."""
    values: dict[str, object] = {"incarnation": report.incarnation, "last_report": report.started_at}
    if report.boot_id:
        values["boot_id"] = report.boot_id
    if decision is not None:
        values["reported_verdict"] = decision.verdict
        values["wanted"] = decision.wanted
        values["policy_version"] = one_line(decision.policy_version, 256)
    if report.facts is not None:
        values["facts"] = msgspec.json.encode(report.facts).decode()
        values["simulated"] = report.facts.simulated
        values["agent_version"] = one_line(report.facts.agent_version, 64)
    return values


def write_status(connection: Connection, cluster: str, node: str, at: datetime, values: dict[str, object]) -> None:
    """Update the node's row, or make it; ``at`` is when we heard of the node."""
    where = (node_status.c.cluster == cluster, node_status.c.node == node)
    done = connection.execute(update(node_status).where(*where).values(last_contact=at, **values))
    if done.rowcount == 0:
        row = {"cluster": cluster, "node": node, "first_seen": at, "last_contact": at, **_EMPTY, **values}
        connection.execute(insert(node_status).values(**row))


def touch(connection: Connection, request: PollRequest, at: datetime) -> None:
    """Note a heartbeat."""
    values: dict[str, object] = {
        "incarnation": one_line(request.incarnation, 64),
        "wedged_lanes": msgspec.json.encode([one_line(lane, 64) for lane in request.wedged_lanes[:64]]).decode(),
        "outbox_waiting": min(max(request.outbox_waiting, 0), 2**31 - 1),
    }
    for name, limit in (("boot_id", 64), ("agent_version", 64), ("policy_version", 256)):
        if text := one_line(getattr(request, name), limit):
            values[name] = text
    write_status(connection, request.cluster, request.node, at, values)


def record_inventory(connection: Connection, report: Report, at: datetime) -> None:
    """Keep the first hardware that a node showed; what it shows later never lowers what is expected of it."""
    if report.facts is None or not report.facts.gpus:
        return
    where = (inventory.c.cluster == report.cluster, inventory.c.node == report.node)
    if connection.execute(select(inventory.c.node).where(*where)).first() is None:
        facts = msgspec.json.encode(report.facts).decode()
        row = {"cluster": report.cluster, "node": report.node, "facts": facts, "recorded_at": at}
        connection.execute(insert(inventory).values(**row, recorded_by="first report"))


def read_inventory(connection: Connection, cluster: str, node: str) -> NodeFacts | None:
    """The hardware recorded for a node."""
    where = (inventory.c.cluster == cluster, inventory.c.node == node)
    return facts_of(connection.execute(select(inventory.c.facts).where(*where)).scalar_one_or_none())


def facts_of(text: str | None) -> NodeFacts | None:
    """The facts that a row holds."""
    return msgspec.json.decode(text, type=NodeFacts) if text else None
