"""What was answered to each job attempt is kept, and read back by job or by node."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Row, case, func, select, tuple_

from api.store.job_tables import attributions, starts
from api.store.starts import REFUSED, VETTED
from api.store.tables import reports
from api.store.views import JobFilter, JobView, ReportView
from checks.wire import Decision, Finding, JobAttempt

FINDINGS = msgspec.json.Decoder(tuple[Finding, ...])
_NOTES = msgspec.json.Decoder(tuple[str, ...])
_refused = func.sum(case((reports.c.allowed == "refuse", 1), else_=0))
NODES_LIMIT = 10_000


def report_view(row: Row[Any], *, whole: bool) -> ReportView:
    """The report in a row, with findings and notes only where it is asked for ``whole``."""
    return ReportView(
        id=row.id,
        cluster=row.cluster,
        node=row.node,
        occasion=row.occasion,
        started_at=row.started_at,
        seconds=row.seconds,
        received_at=row.received_at,
        boot_id=row.boot_id,
        job=msgspec.json.decode(row.job, type=JobAttempt) if row.job else None,
        decision=msgspec.json.decode(row.decision, type=Decision) if row.decision else None,
        findings=FINDINGS.decode(row.findings) if whole else (),
        notes=_NOTES.decode(row.notes) if whole else (),
    )


def report(connection: Connection, number: int) -> ReportView | None:
    """One whole report."""
    row = connection.execute(select(reports).where(reports.c.id == number)).first()
    return report_view(row, whole=True) if row else None


def reports_of_node(
    connection: Connection, cluster: str, node: str, before: int | None, limit: int, *, whole: bool = False
) -> list[ReportView]:
    """Reports of one node, the newest first."""
    query = select(reports).where(reports.c.cluster == cluster, reports.c.node == node)
    if before is not None:
        query = query.where(reports.c.id < before)
    return [report_view(r, whole=whole) for r in connection.execute(query.order_by(reports.c.id.desc()).limit(limit))]


def reports_of_job(
    connection: Connection, cluster: str, job_id: int, after: int | None, limit: int
) -> list[ReportView]:
    """Whole reports of one job, all attempts, in the order of arrival."""
    query = select(reports).where(reports.c.cluster == cluster, reports.c.job_id == job_id)
    if after is not None:
        query = query.where(reports.c.id > after)
    return [report_view(r, whole=True) for r in connection.execute(query.order_by(reports.c.id).limit(limit))]


def jobs(
    connection: Connection, before: int | None, limit: int, wanted: JobFilter | None = None
) -> list[tuple[int, JobView]]:
    """Job attempts with the number of their last report, which is also their order, the newest first."""
    last = func.max(reports.c.id)
    query = (
        select(
            reports.c.cluster,
            reports.c.job_id,
            reports.c.attempt,
            last.label("last"),
            func.min(reports.c.received_at).label("first_at"),
            func.max(reports.c.received_at).label("last_at"),
            _refused.label("refused"),
            func.count().label("total"),
        )
        .where(reports.c.job_id.is_not(None), *_conditions(wanted or JobFilter()))
        .group_by(reports.c.cluster, reports.c.job_id, reports.c.attempt)
        .order_by(last.desc())
        .limit(limit)
    )
    if before is not None:
        query = query.having(last < before)
    return [(int(r.last), _job_view(connection, r)) for r in connection.execute(query).all()]


def _conditions(wanted: JobFilter) -> list[ColumnElement[bool]]:
    where: list[ColumnElement[bool]] = []
    if wanted.since is not None:
        where.append(reports.c.received_at >= wanted.since)
    if wanted.only is not None:
        matching = select(starts.c.cluster, starts.c.attempt).where(starts.c.outcome == REFUSED)
        if wanted.since is not None:
            matching = matching.where(starts.c.at >= wanted.since)
        if wanted.only != "refused":
            matching = matching.where(starts.c.fate == wanted.only)
        where.append(tuple_(reports.c.cluster, reports.c.attempt).in_(matching))
    return where


def _job_view(connection: Connection, row: Row[Any]) -> JobView:
    names = connection.execute(
        select(reports.c.node)
        .distinct()
        .where(reports.c.cluster == row.cluster, reports.c.job_id == row.job_id, reports.c.attempt == row.attempt)
        .order_by(reports.c.node)
        .limit(NODES_LIMIT)
    )
    begun = connection.execute(
        select(starts.c.outcome, starts.c.fate).where(
            starts.c.cluster == row.cluster, starts.c.job_id == row.job_id, starts.c.attempt == row.attempt
        )
    ).all()
    began = connection.execute(
        select(func.count()).where(
            attributions.c.cluster == row.cluster,
            attributions.c.job_id == row.job_id,
            attributions.c.attempt == row.attempt,
        )
    ).scalar_one()
    return JobView(
        cluster=row.cluster,
        job_id=row.job_id,
        attempt=row.attempt,
        nodes=tuple(n.node for n in names),
        first_report=row.first_at,
        last_report=row.last_at,
        refused=row.refused,
        reports=row.total,
        unvetted=sum(b.outcome not in (VETTED, REFUSED) for b in begun),
        began=began,
        fate=next((b.fate for b in begun if b.fate), ""),
    )
