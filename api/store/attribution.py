"""What began on a node while a job ran there is written down with the job: a coincidence in time, never a charge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec
from sqlalchemy import Connection, insert, or_, select

from api.store.current import read_current
from api.store.job_faults import LONGEST, NAMES_A_JOB, TOLD, many_nodes, named, row_of
from api.store.job_tables import attributions, starts
from api.store.jobs import FINDINGS
from api.store.starts import NO_PROLOG, REFUSED, latest
from api.store.tables import changes, reports
from api.store.views import AttributionView
from checks.wire import Finding, JobAttempt, Report

Key = tuple[str, str, str]


def attribute(connection: Connection, fresh: Sequence[Report], now: datetime) -> None:
    """For each epilog: keep what began since the attempt's prolog on this node; call it after `record`."""
    for report in fresh:
        named(connection, report, now)
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
            connection.execute(insert(attributions), [row_of(report, report.job, f, now, shared=shared) for f in found])
            for code in sorted({f.code for f in found}):
                many_nodes(connection, report, report.job, code, now)


def _began(connection: Connection, report: Report, job: JobAttempt, span: tuple[datetime, datetime]) -> list[Finding]:
    """Faults that began within ``span``: seen now, seen by the epilog, or come and gone in between."""
    now_there = read_current(connection, report.cluster, report.node).values()
    before = _before(connection, report, job)
    found: dict[Key, Finding] = {}
    for finding in (*_gone(connection, report, span), *now_there, *report.findings):
        since = finding.since or finding.observed_at
        if finding.status not in TOLD or finding.blame == "self" or finding.key in before:
            continue
        if NAMES_A_JOB.fullmatch(finding.target):
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
    return {f.key for f in FINDINGS.decode(row.findings) if f.status in TOLD} if row else set()


def _gone(connection: Connection, report: Report, span: tuple[datetime, datetime]) -> Iterable[Finding]:
    rows = connection.execute(
        select(changes)
        .where(
            changes.c.cluster == report.cluster,
            changes.c.node == report.node,
            changes.c.status.in_(TOLD),
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
            starts.c.at.between(span[0] - LONGEST, span[1]),
            or_(starts.c.ended_at.is_(None), starts.c.ended_at > span[0]),
        )
        .limit(1)
    )
    return connection.execute(other).first() is not None


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
