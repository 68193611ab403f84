"""A report enters the store only in bounds: names, texts and numbers as long as the columns, no control characters."""

from __future__ import annotations

from datetime import datetime, timezone

import msgspec

from checks.wire import MESSAGE_LIMIT, Decision, Finding, JobAttempt, NodeFacts, Report, Scalar, Unvetted
from slurm.reason import one_line

FINDINGS_LIMIT = 5000
EVIDENCE_LIMIT = 64
NOTES_LIMIT = 64
UNVETTED_LIMIT = 256
INT_LIMIT = 2**63
ATTEMPT_LIMIT = 32
CODES_LIMIT = 64
DEVICES_LIMIT = 256
NODELIST_LIMIT = 20_000


class Malformed(ValueError):
    """A report that can never be stored; the text says which value and which limit."""


def in_bounds(report: Report) -> Report:
    """The report with its texts trimmed, or Malformed where trimming would change what it says."""
    _number("sequence", report.sequence)
    if not 0 <= report.seconds < 1e9:
        raise Malformed(f"seconds {report.seconds} outside 0 to 1e9")
    if len(report.findings) > FINDINGS_LIMIT:
        raise Malformed(f"findings {len(report.findings)} of {FINDINGS_LIMIT}")
    return msgspec.structs.replace(
        report,
        started_at=_moment(report.started_at),
        boot_id=one_line(report.boot_id, 64),
        findings=tuple(_finding(f, report.started_at) for f in report.findings),
        notes=tuple(one_line(n, MESSAGE_LIMIT) for n in report.notes[:NOTES_LIMIT]),
        decision=_decision(report.decision) if report.decision else None,
        job=_job(report.job) if report.job else None,
        facts=_facts(report.facts) if report.facts else None,
        unvetted=tuple(_unvetted(u) for u in report.unvetted[:UNVETTED_LIMIT]),
    )


def _decision(decision: Decision) -> Decision:
    return msgspec.structs.replace(
        decision,
        codes=tuple(one_line(c, 64) for c in decision.codes[:CODES_LIMIT]),
        shadow_codes=tuple(one_line(c, 64) for c in decision.shadow_codes[:CODES_LIMIT]),
        reason=one_line(decision.reason, MESSAGE_LIMIT),
        user_message=one_line(decision.user_message, MESSAGE_LIMIT),
        why=one_line(decision.why, MESSAGE_LIMIT),
        permit=one_line(decision.permit, 64) if decision.permit else None,
        policy_version=one_line(decision.policy_version, 256),
    )


def _job(job: JobAttempt) -> JobAttempt:
    _number("job_id", job.job_id)
    if len(job.key) > ATTEMPT_LIMIT:
        raise Malformed(f"attempt {len(job.key)} of {ATTEMPT_LIMIT} characters")
    return msgspec.structs.replace(
        job,
        partition=one_line(job.partition, 128) if job.partition else job.partition,
        nodelist=one_line(job.nodelist, NODELIST_LIMIT),
        gpu_minors=job.gpu_minors[:DEVICES_LIMIT] if job.gpu_minors else job.gpu_minors,
    )


def _facts(facts: NodeFacts) -> NodeFacts:
    words = ("profile", "boot_id", "kernel", "driver", "gpu_model", "agent_version")
    return msgspec.structs.replace(
        facts,
        gpus=tuple(one_line(g, 128) for g in facts.gpus[:DEVICES_LIMIT]),
        **{word: one_line(getattr(facts, word), 128) for word in words},
    )


def _unvetted(start: Unvetted) -> Unvetted:
    _number("job_id", start.job_id)
    if start.restart_count is not None and not 0 <= start.restart_count < 2**31:
        raise Malformed(f"restart count {start.restart_count} outside 0 to 2^31 - 1")
    return msgspec.structs.replace(start, cause=one_line(start.cause, 32), at=_moment(start.at))


def _finding(finding: Finding, started_at: datetime) -> Finding:
    _number("seen", finding.seen)
    if not finding.check or not finding.code:
        raise Malformed("finding without check or code")
    return msgspec.structs.replace(
        finding,
        check=one_line(finding.check, 64),
        target=one_line(finding.target, 128),
        code=one_line(finding.code, 64),
        message=one_line(finding.message, MESSAGE_LIMIT),
        evidence=_evidence(finding.evidence),
        observed_at=_moment(finding.observed_at or started_at),
        since=_moment(finding.since) if finding.since else None,
    )


def _evidence(evidence: dict[str, Scalar]) -> dict[str, Scalar]:
    few = list(evidence.items())[:EVIDENCE_LIMIT]
    return {one_line(k, 64): one_line(v, MESSAGE_LIMIT) if isinstance(v, str) else v for k, v in few}


def _number(name: str, value: int) -> None:
    if not 0 <= value < INT_LIMIT:
        raise Malformed(f"{name} outside 0 to 2^63 - 1")


def _moment(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise Malformed(f"time {value} has no zone")
    try:
        return value.astimezone(timezone.utc)
    except OverflowError as error:
        raise Malformed(f"time {value} is out of range") from error
