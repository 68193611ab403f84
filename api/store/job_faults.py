"""What is a job's by its name or by a crash is kept with it, and one job on many nodes is an incident of the job."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import msgspec
from sqlalchemy import Connection, func, insert, select, update

from api.store.incidents import open_incident
from api.store.job_tables import attributions, starts
from api.store.past_tables import node_events
from api.store.starts import REFUSED
from api.store.tables import findings, reports
from checks.wire import Finding, JobAttempt, Report

# The same fault on so many nodes of one job speaks of the job before it speaks of the nodes.
MANY_NODES = 3
JOB_KIND = "job"
RESTARTED = "node_restarted"
NAMES_A_JOB = re.compile(r"job ([1-9][0-9]{0,9})")
TOLD = ("fail", "warn")
LONGEST = timedelta(days=30)
SLACK = timedelta(seconds=60)
# Nodes that came up this long before are of the same event, as after a loss of power.
POWER = timedelta(minutes=15)
AT_ONCE = 256


def named(connection: Connection, report: Report, now: datetime) -> None:
    """A finding that names its job is that job's, whenever it comes: the kernel's line may be read after the epilog."""
    for finding in report.findings:
        match = NAMES_A_JOB.fullmatch(finding.target)
        began = finding.since or finding.observed_at
        if match is None or finding.status not in TOLD or began is None:
            continue
        here = (starts.c.cluster == report.cluster, starts.c.node == report.node)
        start = connection.execute(
            select(starts)
            .where(*here, starts.c.job_id == int(match[1]), starts.c.at <= began + SLACK)
            .order_by(starts.c.id.desc())
            .limit(1)
        ).first()
        # A job that nobody saw begin here may be of a former life of the database: it is named, but by its id alone.
        attempt = start.attempt if start is not None else f"{match[1]}.x"
        same = (
            attributions.c.cluster == report.cluster,
            attributions.c.node == report.node,
            attributions.c.attempt == attempt,
            attributions.c.code == finding.code,
            attributions.c.began_at >= (start.at if start is not None else began - LONGEST),
        )
        if connection.execute(select(attributions.c.id).where(*same).limit(1)).first() is not None:
            continue
        job = _attempt(connection, report, int(match[1]), attempt)
        found = msgspec.structs.replace(finding, since=began)
        connection.execute(
            insert(attributions).values(**(row_of(report, job, found, now, shared=False) | {"attempt": attempt}))
        )
        many_nodes(connection, report, job, finding.code, now)


def _attempt(connection: Connection, report: Report, job_id: int, attempt: str) -> JobAttempt:
    """The attempt as its own hooks told of it here: with user and GPUs where that is known."""
    row = connection.execute(
        select(reports.c.job)
        .where(
            reports.c.cluster == report.cluster,
            reports.c.job_id == job_id,
            reports.c.node == report.node,
            reports.c.attempt == attempt,
        )
        .order_by(reports.c.id)
        .limit(1)
    ).first()
    return msgspec.json.decode(row.job, type=JobAttempt) if row is not None else JobAttempt(job_id=job_id)


def crashed(connection: Connection, report: Report, now: datetime) -> None:
    """The node came up anew: which jobs ran there until then; no epilog will tell of them any more."""
    at = report.started_at
    ran = connection.execute(
        select(starts)
        .where(
            starts.c.cluster == report.cluster,
            starts.c.node == report.node,
            starts.c.ended_at.is_(None),
            starts.c.outcome != REFUSED,
            starts.c.at.between(at - LONGEST, at),
        )
        .order_by(starts.c.id.desc())
        .limit(AT_ONCE)
    ).all()
    message = "the node came up anew while the job ran there"
    found = Finding(check="boot", target="node", code=RESTARTED, status="warn", message=message, since=at)
    for start in ran:
        job = _attempt(connection, report, start.job_id, start.attempt)
        row = row_of(report, job, found, now, shared=len(ran) > 1) | {"attempt": start.attempt}
        connection.execute(insert(attributions).values(**row))
        connection.execute(update(starts).where(starts.c.id == start.id).values(ended_at=at))
        many_nodes(connection, report, job, RESTARTED, now)


def many_nodes(connection: Connection, report: Report, job: JobAttempt, code: str, now: datetime) -> None:
    """Open one incident of the job where its nodes, and not as many others, began to show the same fault."""
    mine = (
        attributions.c.cluster == report.cluster,
        attributions.c.job_id == job.job_id,
        attributions.c.code == code,
        attributions.c.at > now - LONGEST,
    )
    nodes = set(connection.execute(select(attributions.c.node).distinct().where(*mine)).scalars())
    first = connection.execute(select(func.min(attributions.c.began_at)).where(*mine)).scalar()
    if len(nodes) < MANY_NODES or first is None:
        return
    showing = select(findings.c.node).distinct()
    where = (findings.c.cluster == report.cluster, findings.c.code == code, findings.c.since >= first)
    elsewhere = connection.execute(showing.where(*where)).scalars()
    if code == RESTARTED:
        boots = (
            node_events.c.cluster == report.cluster,
            node_events.c.kind == "boot",
            node_events.c.at >= first - POWER,
        )
        elsewhere = connection.execute(select(node_events.c.node).distinct().where(*boots)).scalars()
    if len(set(elsewhere) - nodes) >= len(nodes):
        return
    text = f"{code} began on {len(nodes)} nodes during job {job.job_id}: look at the job before its nodes"
    key = (report.cluster, "", code, f"job {job.job_id}")
    open_incident(connection, now, key, message=text, kind=JOB_KIND)


def row_of(report: Report, job: JobAttempt, finding: Finding, now: datetime, *, shared: bool) -> dict[str, object]:
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
