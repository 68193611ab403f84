"""Why a job was refused and what Slurm does next, attempt by attempt, for its user and for the operator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from api.store.starts import REFUSED, VETTED
from api.store.views import AttributionView, ReportView, StartView
from checks.wire import Limits

NAMED = 8


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """One node that refused an attempt."""

    node: str
    at: datetime
    codes: tuple[str, ...]
    reason: str
    permit: str | None


class AttemptExplained(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt: where it was refused, how it began elsewhere, what Slurm does or did then."""

    attempt: str
    at: datetime
    nodes: tuple[str, ...]
    refusals: tuple[Refusal, ...]
    unvetted: tuple[StartView, ...]
    began: tuple[AttributionView, ...]
    fate: str
    for_user: str
    for_operator: str


class JobExplained(msgspec.Struct, frozen=True, kw_only=True):
    """A job's attempts in their order."""

    cluster: str
    job_id: int
    attempts: tuple[AttemptExplained, ...]


class AttemptWords(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one attempt, for its user."""

    attempt: str
    at: datetime
    text: str


class JobWords(msgspec.Struct, frozen=True, kw_only=True):
    """A job's attempts in their order, for its user."""

    cluster: str
    job_id: int
    attempts: tuple[AttemptWords, ...]


def words_of(told: JobExplained) -> JobWords:
    """Only what the job's user needs: neither codes nor users nor other jobs."""
    attempts = tuple(AttemptWords(attempt=a.attempt, at=a.at, text=a.for_user) for a in told.attempts)
    return JobWords(cluster=told.cluster, job_id=told.job_id, attempts=attempts)


def explain(
    cluster: str,
    job_id: int,
    reports: Sequence[ReportView],
    starts: Sequence[StartView],
    began: Sequence[AttributionView],
    limits: Limits,
) -> JobExplained:
    """All that is known of the job, in words."""
    names = [r.job.key for r in reports if r.job] + [s.attempt for s in starts]
    attempts = [
        _attempt(
            name,
            [r for r in reports if r.job and r.job.key == name],
            [s for s in starts if s.attempt == name],
            [b for b in began if b.attempt == name],
            limits,
        )
        for name in dict.fromkeys(names)
    ]
    return JobExplained(cluster=cluster, job_id=job_id, attempts=tuple(sorted(attempts, key=lambda a: a.at)))


def _attempt(
    name: str,
    reports: Sequence[ReportView],
    starts: Sequence[StartView],
    began: Sequence[AttributionView],
    limits: Limits,
) -> AttemptExplained:
    refusals = tuple(r for report in reports if (r := _refusal(report)) is not None)
    unvetted = tuple(s for s in starts if s.outcome not in (VETTED, REFUSED))
    fate = next((s for s in starts if s.fate), None)
    following = _following(name, fate, limits) if refusals else ""
    user, operator = _words(refusals, unvetted, began, following)
    return AttemptExplained(
        attempt=name,
        at=min([r.started_at for r in reports] + [s.at for s in starts]),
        nodes=tuple(sorted({r.node for r in reports} | {s.node for s in starts})),
        refusals=refusals,
        unvetted=unvetted,
        began=tuple(began),
        fate=fate.fate if fate else "",
        for_user=user,
        for_operator=operator,
    )


def _refusal(report: ReportView) -> Refusal | None:
    decision = report.decision
    if report.occasion != "prolog" or decision is None or decision.allowed != "refuse":
        return None
    return Refusal(
        node=report.node, at=report.started_at, codes=decision.codes, reason=decision.reason, permit=decision.permit
    )


def _words(
    refusals: Sequence[Refusal],
    unvetted: Sequence[StartView],
    began: Sequence[AttributionView],
    following: str,
) -> tuple[str, str]:
    """The same for both readers: the user needs no codes, and nobody is accused."""
    if refusals:
        where = _names(r.node for r in refusals)
        told = "; ".join(f"{r.node}: {r.reason or ', '.join(r.codes)}" for r in refusals[:NAMED])
        return (
            f"not started: {where} was found faulty before the job began and is out of service now. "
            f"The fault is not the job's. {following}",
            f"refused on {told}. {following}",
        )
    parts = ["started"]
    if unvetted:
        told = ", ".join(f"{s.node} ({s.outcome})" for s in unvetted[:NAMED])
        parts.append(f"without a whole answer on {told}")
    if began:
        told = ", ".join(f"{b.code} {b.target} on {b.node}" for b in began[:NAMED])
        shared = " (shared with other jobs)" if any(b.shared for b in began) else ""
        parts.append(f"during it began: {told}{shared}")
    operator = "; ".join(parts)
    return _for_user(began), operator


def _for_user(began: Sequence[AttributionView]) -> str:
    """What may explain the job's end; its own limit is said as such, so that nobody looks for a bad node."""
    memory = [b for b in began if b.code == "oom_job"]
    others = [b for b in began if b.code != "oom_job"]
    parts = ["started"]
    if memory:
        parts.append(
            f"on {_names(b.node for b in memory)} the job reached the memory it had asked for and one of its processes "
            "was killed: ask for more memory"
        )
    if others:
        parts.append(f"a fault began on {_names(b.node for b in others)} while the job ran, which may explain its end")
    return "; ".join(parts)


def _names(nodes: Iterable[str]) -> str:
    known = sorted(set(nodes))
    more = f" and {len(known) - NAMED} more" if len(known) > NAMED else ""
    return ("node " if len(known) == 1 else "nodes ") + ", ".join(known[:NAMED]) + more


def _following(attempt: str, fate: StartView | None, limits: Limits) -> str:
    """What Slurm did with the refused attempt where that was seen, else what it does by its configuration."""
    job = attempt.partition(".")[0]
    known = fate.fate if fate else ""
    if known == "held":
        return f"slurm requeued and holds the job: an administrator lets it run with: scontrol release {job}"
    if known == "cancelled":
        return "slurm cancelled the job, as it does with srun, salloc and --no-requeue: submit it again"
    if known == "restarted":
        return "slurm has started the job again since"
    if known == "waiting" and fate is not None and fate.fate_until is not None:
        return f"slurm has requeued the job: it can start again from {fate.fate_until:%Y-%m-%d %H:%M:%S} UTC on"
    seconds = limits.restart_after
    about = f"about {seconds:.0f} s after the refusal" if seconds else "after cred_expire + 1 s"
    if known == "waiting" or limits.nohold:
        what = f"slurm requeues the job: it can start again {about}, when nodes are free"
    elif limits.nohold is None:
        what = f"slurm requeues the job, held or able to start again {about}; its configuration is not known here"
    else:
        what = f"slurm requeues and holds the job (no nohold_on_prolog_fail): scontrol release {job} lets it run"
    return f"{what}; srun, salloc and --no-requeue jobs are cancelled instead"
