"""What began on a node while a job ran there is written down with the job: a coincidence in time, never a charge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec
from sqlalchemy import Connection, func, insert, or_, select

from api.store.current import read_current
from api.store.incidents import open_incident
from api.store.job_tables import attributions, starts
from api.store.jobs import FINDINGS
from api.store.starts import NO_PROLOG, REFUSED, latest
from api.store.tables import changes, findings, reports
from api.store.views import AttributionView
from checks.wire import Finding, JobAttempt, Report

# The same fault on so many nodes of one job speaks of the job before it speaks of the nodes.
MANY_NODES = 3
JOB_KIND = "job"
_TOLD = ("fail", "warn")
_LONGEST = timedelta(days=30)
Key = tuple[str, str, str]


def attribute(connection: Connection, fresh: Sequence[Report], now: datetime) -> None:
    """For each epilog: keep what began since the attempt's prolog on this node; call it after `record`."""
    for report in fresh:
        if report.occasion != "epilog" or report.job is None:
            continue
        start = latest(connection, report.cluster, report.node, report.job)
        # Where nobody saw the job begin, nobody can say what began during it.
        if start is None or start.outcome in (NO_PROLOG, REFUSED) or start.at >= report.started_at:
            continue
        end = report.started_at + timedelta(seconds=report.seconds)
        found = _began(connection, report, report.job, (start.at, end))
        if found:
            shared = _shared(connection, report, report.job, (start.at, end))
            connection.execute(insert(attributions), [_row(report, report.job, f, now, shared=shared) for f in found])
            for code in sorted({f.code for f in found}):
                _many_nodes(connection, report, report.job, code, now)


def _began(connection: Connection, report: Report, job: JobAttempt, span: tuple[datetime, datetime]) -> list[Finding]:
    """Faults that began within ``span``: seen now, seen by the epilog, or come and gone in between."""
    now_there = read_current(connection, report.cluster, report.node).values()
    before = _before(connection, report, job)
    found: dict[Key, Finding] = {}
    for finding in (*_gone(connection, report, span), *now_there, *report.findings):
        since = finding.since or finding.observed_at
        if finding.status not in _TOLD or finding.blame == "self" or finding.key in before:
            continue
        if since is not None and span[0] <= since <= span[1]:
            found[finding.key] = msgspec.structs.replace(finding, since=since)
    return [found[key] for key in sorted(found)]


def _before(connection: Connection, report: Report, job: JobAttempt) -> set[Key]:
    """What the prolog of the attempt had seen already."""
    row = connection.execute(
        select(reports.c.findings)
        .where(
            reports.c.cluster == report.cluster,
            reports.c.job_id == job.job_id,
            reports.c.node == report.node,
            reports.c.attempt == job.key,
            reports.c.occasion == "prolog",
        )
        .order_by(reports.c.id.desc())
        .limit(1)
    ).first()
    return {f.key for f in FINDINGS.decode(row.findings) if f.status in _TOLD} if row else set()


def _gone(connection: Connection, report: Report, span: tuple[datetime, datetime]) -> Iterable[Finding]:
    rows = connection.execute(
        select(changes)
        .where(
            changes.c.cluster == report.cluster,
            changes.c.node == report.node,
            changes.c.status.in_(_TOLD),
            changes.c.observed_at.between(*span),
        )
        .order_by(changes.c.id)
        .limit(1000)
    )
    for r in rows:
        seen = {"observed_at": r.observed_at, "since": r.observed_at}
        yield Finding(
            check=r.check_name, target=r.target, code=r.code, status=r.status, blame=r.blame, message=r.message, **seen
        )


def _shared(connection: Connection, report: Report, job: JobAttempt, span: tuple[datetime, datetime]) -> bool:
    """Whether another job had a part of the node within that time."""
    other = (
        select(starts.c.id)
        .where(
            starts.c.cluster == report.cluster,
            starts.c.node == report.node,
            starts.c.job_id != job.job_id,
            starts.c.outcome != REFUSED,
            starts.c.at.between(span[0] - _LONGEST, span[1]),
            or_(starts.c.ended_at.is_(None), starts.c.ended_at > span[0]),
        )
        .limit(1)
    )
    return connection.execute(other).first() is not None


def _many_nodes(connection: Connection, report: Report, job: JobAttempt, code: str, now: datetime) -> None:
    """Open one incident of the job where its nodes, and not as many others, began to show the same fault."""
    mine = (
        attributions.c.cluster == report.cluster,
        attributions.c.job_id == job.job_id,
        attributions.c.code == code,
        attributions.c.at > now - _LONGEST,
    )
    nodes = set(connection.execute(select(attributions.c.node).distinct().where(*mine)).scalars())
    first = connection.execute(select(func.min(attributions.c.began_at)).where(*mine)).scalar()
    if len(nodes) < MANY_NODES or first is None:
        return
    showing = select(findings.c.node).distinct()
    elsewhere = connection.execute(
        showing.where(findings.c.cluster == report.cluster, findings.c.code == code, findings.c.since >= first)
    ).scalars()
    if len(set(elsewhere) - nodes) >= len(nodes):
        return
    text = f"{code} began on {len(nodes)} nodes during job {job.job_id}: look at the job before its nodes"
    key = (report.cluster, "", code, f"job {job.job_id}")
    open_incident(connection, now, key, message=text, kind=JOB_KIND)


def _row(report: Report, job: JobAttempt, finding: Finding, now: datetime, *, shared: bool) -> dict[str, object]:
    return {
        "cluster": report.cluster,
        "node": report.node,
        "job_id": job.job_id,
        "attempt": job.key,
        "uid": job.uid,
        "gpu_minors": msgspec.json.encode(job.gpu_minors).decode(),
        "check_name": finding.check,
        "code": finding.code,
        "target": finding.target,
        "status": finding.status,
        "blame": finding.blame,
        "message": finding.message,
        "shared": shared,
        "began_at": finding.since,
        "at": now,
    }


def read(
    connection: Connection,
    cluster: str,
    *,
    job_id: int | None = None,
    node: str | None = None,
    limit: int = 1000,
) -> list[AttributionView]:
    """What began during one job, or on one node during any, the newest first."""
    query = select(attributions).where(attributions.c.cluster == cluster)
    if job_id is not None:
        query = query.where(attributions.c.job_id == job_id)
    if node is not None:
        query = query.where(attributions.c.node == node)
    return [
        AttributionView(
            node=r.node,
            job_id=r.job_id,
            attempt=r.attempt,
            uid=r.uid,
            gpu_minors=msgspec.json.decode(r.gpu_minors, type=tuple[int, ...] | None),
            check=r.check_name,
            code=r.code,
            target=r.target,
            status=r.status,
            blame=r.blame,
            message=r.message,
            shared=r.shared,
            began_at=r.began_at,
        )
        for r in connection.execute(query.order_by(attributions.c.id.desc()).limit(limit))
    ]
