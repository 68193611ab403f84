"""Automatic drains: decide on fresh findings, ask the guard, write the intent down, and only then write to Slurm."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from api.controller.core import Core
from api.controller.fleet import fleet
from api.controller.records import DrainRecord, NewDrain, new_token
from checks.judge.context import Context
from checks.judge.decide import decide
from checks.judge.guard import Ruling, authorize
from checks.wire import Decision, Finding, JobAttempt
from slurm.errors import SlurmError
from slurm.ownership import Outcome, Result, drain_if_free
from slurm.reason import compose
from slurm.state import NodeState

log = logging.getLogger(__name__)
AUTOMATIC = "ours-automatic"


@dataclass(frozen=True, slots=True)
class Drained:
    """Whether the node is out of service for our cause now, and what to tell people."""

    done: bool
    why: str
    record: DrainRecord | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a node is to be drained, and for whom."""

    decision: Decision
    checks: tuple[str, ...] = ()
    permit: str | None = None
    job: JobAttempt | None = None


def judge_now(core: Core, findings: Sequence[Finding], now: datetime) -> Decision:
    """The interval decision on stored findings; what is older than ``fresh`` leads nowhere."""
    stale = {f.check: core.settings.fresh for f in findings}
    return decide(findings, core.policy, Context(occasion="interval", now=now, stale_after=stale))


async def consider(core: Core) -> None:
    """Look at every node with a failing finding and drain those that the policy, the guard and Slurm allow."""
    if not core.settings.automation:
        return
    failing = await asyncio.to_thread(core.store.all_failing, core.cluster)
    opened = await asyncio.to_thread(core.records.open_drains, core.cluster)
    for node in sorted(failing):
        state = core.view.states.get(node)
        if state is None or state.out_of_service or state.hands_off or node in opened:
            continue
        findings = await asyncio.to_thread(core.store.current_findings, core.cluster, node)
        decision = judge_now(core, findings, core.clock())
        if decision.wanted != "drain" or await asyncio.to_thread(_believed, core, node, decision):
            continue
        async with core.lock:
            await drain_node(core, node, decision, findings)


def _believed(core: Core, node: str, decision: Decision) -> bool:
    """Whether a person gave the node back a moment ago; then only a fault that breaks every job drains at once."""
    last = core.records.last(core.cluster, node)
    if last is None or last.state != "resumed_outside" or last.closed_at is None:
        return False
    if not set(last.codes) & set(decision.codes):
        return False
    if any((rule := core.policy.codes.get(code)) and rule.breaks_every_job for code in decision.codes):
        return False
    age = (core.clock() - last.closed_at).total_seconds()
    if age < core.settings.belief:
        core.incident(node, "resumed_while_faulty", f"resumed {age:.0f} s ago by a person, {decision.reason} persists")
        return True
    return False


async def drain_node(
    core: Core,
    node: str,
    decision: Decision,
    findings: Sequence[Finding],
    *,
    permit: str | None = None,
    job: JobAttempt | None = None,
    timeout: float = 20.0,
) -> Drained:
    """Authorize and drain one node; the caller holds ``core.lock``."""
    code = decision.codes[0]
    view = await asyncio.to_thread(fleet, core)
    ruling = authorize(node, code, view, core.guard)
    if not ruling.allowed:
        await asyncio.to_thread(_denied, core, node, code, decision, ruling)
        return Drained(False, f"guard: {ruling.why}")
    await asyncio.to_thread(core.solved, node, "guard_closed", "guard allowed")
    cause = Cause(decision, checks_of(decision, findings), permit, job)
    record = await asyncio.to_thread(_intend, core, node, code, cause)
    try:
        outcome = await core.view.call(_drain, core, record, timeout=timeout)
    except (SlurmError, TimeoutError) as error:
        return await asyncio.to_thread(_unsure, core, record, str(error))
    return await asyncio.to_thread(_written, core, record, outcome)


def _drain(core: Core, record: DrainRecord) -> Outcome:
    return drain_if_free(core.view.backend, record.node, record.reason, store=lambda s: was(core, record.node, s))


def was(core: Core, node: str, state: NodeState) -> None:
    """Keep what stood in Slurm right before a write of ours."""
    core.audit("read before write", node, f"{state} {state.reason.text if state.reason else ''}")


def detail_of(code: str, decision: Decision) -> str:
    """The decision's line without the code it begins with, since the reason puts the code first itself."""
    return decision.reason.removeprefix(code).strip() or "see nodevet node"


def checks_of(decision: Decision, findings: Sequence[Finding]) -> tuple[str, ...]:
    """The checks whose findings led to the decision: without their word the node does not go back."""
    return tuple(sorted({f.check for f in findings if f.code in decision.codes and f.check}))


def _intend(core: Core, node: str, code: str, cause: Cause) -> DrainRecord:
    token = new_token()
    return core.records.intend(
        NewDrain(
            cluster=core.cluster,
            node=node,
            owner=AUTOMATIC,
            actor="controller",
            codes=cause.decision.codes,
            checks=cause.checks,
            token=token,
            reason=compose(code, detail_of(code, cause.decision), token=token),
            boot_id=core.boot_of(node),
            permit=cause.permit,
            step=core.way_back(code),
            job=cause.job.key if cause.job else None,
        ),
        core.clock(),
    )


def _denied(core: Core, node: str, code: str, decision: Decision, ruling: Ruling) -> None:
    """A closed guard is loud: one incident for the fleet where many fail alike, else one for the node."""
    core.count("guard_denied_total")
    if ruling.kind == "correlated":
        core.incident("", f"many_{code}"[:64], ruling.why, kind="correlated")
    core.incident(node, "guard_closed", f"{decision.reason}; not drained: {ruling.why}")
    log.warning("drain denied node=%s code=%s kind=%s why=%s", node, code, ruling.kind, ruling.why)


def _written(core: Core, record: DrainRecord, outcome: Outcome) -> Drained:
    now = core.clock()
    if outcome.result is Result.WRITTEN:
        record = core.records.written(record, now, f"written in {outcome.window_ms} ms")
        core.count("drains_total")
        core.audit("drain", record.node, f"{record.reason}; window {outcome.window_ms} ms")
        core.solved(record.node, "drain_failed", "drained")
        log.warning("drained node=%s reason=%r", record.node, record.reason)
        return Drained(True, "drained", record)
    record = core.records.change(record, now, state="failed", why=outcome.detail)
    core.audit("drain not written", record.node, f"{record.reason}; {outcome.result.value}: {outcome.detail}")
    if outcome.result in (Result.ALREADY_OURS, Result.KEPT):
        # No job starts there any more, by whoever's hand: as good as our own drain, and left as it is.
        return Drained(True, outcome.detail, record)
    core.incident(record.node, "drain_failed", outcome.detail)
    return Drained(False, outcome.detail, record)


def _unsure(core: Core, record: DrainRecord, why: str) -> Drained:
    """Slurm did not answer: the write may still land, so the intent stays open for reconcile() to settle."""
    core.incident(record.node, "drain_failed", why)
    core.audit("drain unsure", record.node, f"{record.reason}; {why}")
    log.error("drain unsure node=%s why=%s", record.node, why)
    return Drained(False, why, record)
