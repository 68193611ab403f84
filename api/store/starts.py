"""Each start of a job on a node is kept with its answer, so that what began unvetted can be counted by cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from api.store.job_tables import starts
from checks.wire import Decision, JobAttempt, Report, Unvetted

VETTED = "vetted"
REFUSED = "refused"
NO_PROLOG = "no_prolog_report"
# Without a restart count the next attempt looks the same, and so does a job of a Slurm set up anew.
SAME_ATTEMPT = timedelta(days=30)
SAME_START = timedelta(minutes=15)
_CAUSES = (("hands off: the stop", "stop"), ("the stop file", "stop"), ("configuration", "config_broken"))


def outcome_of(decision: Decision) -> str:
    """How the start was answered: vetted, refused, or the cause why not."""
    if decision.allowed == "refuse":
        return REFUSED
    why = decision.why.lower()
    for begin, cause in _CAUSES:
        if why.startswith(begin):
            return cause
    if "paused" in why[:40] or "maintenance" in why[:40]:
        return "paused"
    if decision.wanted == "refuse":
        return "admitted_without_permit"
    return "unknown_verdict" if decision.verdict == "unknown" else VETTED


def record(connection: Connection, fresh: Sequence[Report]) -> None:
    """Write down what these reports say of the starts and ends of jobs, in their order."""
    for report in fresh:
        for start in report.unvetted:
            _unvetted(connection, report, start)
        if report.job is None:
            continue
        if report.occasion == "prolog" and report.decision is not None:
            _began(connection, report, report.job, report.decision)
        elif report.occasion == "epilog":
            _ended(connection, report, report.job)


def latest(connection: Connection, cluster: str, node: str, job: JobAttempt) -> Row[Any] | None:
    """The newest row of this attempt on this node."""
    return connection.execute(
        select(starts)
        .where(
            starts.c.cluster == cluster,
            starts.c.job_id == job.job_id,
            starts.c.node == node,
            starts.c.attempt == job.key,
        )
        .order_by(starts.c.id.desc())
        .limit(1)
    ).first()


def _began(connection: Connection, report: Report, job: JobAttempt, decision: Decision) -> None:
    found = latest(connection, report.cluster, report.node, job)
    values = {
        "nodes": job.nodes,
        "outcome": outcome_of(decision),
        "detail": decision.reason or decision.why,
        "at": report.started_at,
    }
    if found is not None and _same(found, report.started_at) and found.ended_at is None:
        # Told after its cause was: the cause stays. Told twice, as by an agent that was started anew: the latter holds.
        again: dict[str, object] = {"nodes": job.nodes}
        if found.outcome in (VETTED, REFUSED):
            again |= {"outcome": values["outcome"], "detail": values["detail"]}
        connection.execute(update(starts).where(starts.c.id == found.id).values(**again))
        return
    _add(connection, report, job, values)


def _ended(connection: Connection, report: Report, job: JobAttempt) -> None:
    found = latest(connection, report.cluster, report.node, job)
    if found is None or found.ended_at is not None or report.started_at - found.at > SAME_ATTEMPT:
        values = {"nodes": job.nodes, "outcome": NO_PROLOG, "detail": "", "at": report.started_at}
        _add(connection, report, job, {**values, "ended_at": _end(report)})
        return
    connection.execute(update(starts).where(starts.c.id == found.id).values(ended_at=_end(report)))


def _unvetted(connection: Connection, report: Report, start: Unvetted) -> None:
    """A cause told by the agent replaces what was thought of that start."""
    job = JobAttempt(job_id=start.job_id, restart_count=start.restart_count)
    found = latest(connection, report.cluster, report.node, job)
    same = found is not None and (found.outcome == NO_PROLOG or _same(found, start.at))
    if found is None or not same:
        _add(connection, report, job, {"nodes": None, "outcome": start.cause, "detail": "", "at": start.at})
    elif found.outcome in (VETTED, NO_PROLOG):
        values = {"outcome": start.cause, "at": min(found.at, start.at)}
        connection.execute(update(starts).where(starts.c.id == found.id).values(**values))


def _add(connection: Connection, report: Report, job: JobAttempt, values: Mapping[str, object]) -> None:
    key = {"cluster": report.cluster, "node": report.node, "job_id": job.job_id, "attempt": job.key}
    connection.execute(insert(starts).values(**key, **values))


def _same(found: Row[Any], at: datetime) -> bool:
    """Whether the row is of this start: without a restart count an older one is of another attempt."""
    return bool(abs(at - found.at) <= SAME_START)


def _end(report: Report) -> datetime:
    return report.started_at + timedelta(seconds=report.seconds)
