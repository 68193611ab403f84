"""What came too late is put right: a job admitted just before a drain, and Slurm's bare "Prolog error"."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

from api.controller.automatic import AUTOMATIC, checks_of, detail_of, was
from api.controller.core import Core
from api.controller.permits import Permits
from api.controller.records import DrainRecord, NewDrain, new_token
from api.store.views import ReportView
from slurm.errors import SlurmError
from slurm.ownership import Outcome, Result, replace_prolog_error
from slurm.reason import compose
from slurm.state import NodeState

log = logging.getLogger(__name__)
REFUSAL_SECONDS = 900.0


async def requeue_late(core: Core, permits: Permits) -> None:
    """A drain that landed after the hook's answer: requeue that job, but only for codes that break every job."""
    opened = await asyncio.to_thread(core.records.open_drains, core.cluster)
    for node, job in list(permits.late.items()):
        record = opened.get(node)
        if record is None or record.state == "intent" or not record.automatic:
            continue
        del permits.late[node]
        if not any((rule := core.policy.codes.get(code)) and rule.breaks_every_job for code in record.codes):
            continue
        try:
            await core.view.call(core.view.backend.requeue, job.job_id)
            await asyncio.to_thread(core.audit, "requeue", node, f"job {job.key} had been admitted; {record.reason}")
        except (SlurmError, TimeoutError) as error:
            log.warning("requeue failed job=%s why=%s", job.key, error)


async def explain_prolog_errors(core: Core) -> None:
    """Replace a bare "Prolog error" by our reason where our record shows our refusal there; else only say so."""
    for name, state in core.view.states.items():
        reason = state.active_reason
        if reason is None or not reason.text.startswith("Prolog error") or state.hands_off:
            continue
        refusal = await asyncio.to_thread(_refusal, core, name, state)
        if refusal is None:
            text = "drained by slurm with a prolog error that is not ours: look at slurmd's log"
            await asyncio.to_thread(core.incident, name, "prolog_error_unexplained", text)
        else:
            await _replace(core, name, refusal)


def _refusal(core: Core, node: str, state: NodeState) -> ReportView | None:
    """Our own refusal around the time of Slurm's reason."""
    reason = state.active_reason
    for report in core.store.recent_reports(core.cluster, node, limit=20):
        decision = report.decision
        if report.occasion != "prolog" or decision is None or decision.allowed != "refuse" or not decision.codes:
            continue
        if (
            reason is None
            or reason.at is None
            or abs(reason.at - report.started_at) < timedelta(seconds=REFUSAL_SECONDS)
        ):
            return report
    return None


async def _replace(core: Core, node: str, report: ReportView) -> None:
    decision = report.decision
    assert decision is not None
    code, token = decision.codes[0], new_token()
    new = NewDrain(
        cluster=core.cluster,
        node=node,
        owner=AUTOMATIC,
        actor="controller",
        codes=decision.codes,
        token=token,
        reason=compose(code, detail_of(code, decision), token=token),
        boot_id=report.boot_id,
        permit=decision.permit,
        step=core.way_back(code),
        checks=checks_of(decision, report.findings),
        job=report.job.key if report.job else None,
    )
    async with core.lock:
        record = await asyncio.to_thread(core.records.intend, new, core.clock())
        try:
            outcome = await core.view.call(_explain, core, record)
        except (SlurmError, TimeoutError) as error:
            log.warning("prolog error not explained node=%s why=%s", node, error)
            return
        if outcome.result is not Result.WRITTEN:
            await asyncio.to_thread(core.records.change, record, core.clock(), state="failed", why=outcome.detail)
            return
        await asyncio.to_thread(core.records.written, record, core.clock(), "slurm's prolog error explained")
        if decision.permit:
            await asyncio.to_thread(core.records.use_lease, decision.permit, core.clock())
    await asyncio.to_thread(core.audit, "prolog error explained", node, record.reason)
    await asyncio.to_thread(core.solved, node, "prolog_error_unexplained", "our refusal")


def _explain(core: Core, record: DrainRecord) -> Outcome:
    return replace_prolog_error(
        core.view.backend, record.node, record.reason, we_refused=True, store=lambda s: was(core, record.node, s)
    )
