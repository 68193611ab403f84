"""What came too late is put right: a job admitted just before a drain, and Slurm's bare "Prolog error"."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import datetime, timedelta
from functools import partial

from api.controller.automatic import AUTOMATIC, checks_of, detail_of
from api.controller.core import Core
from api.controller.permits import Late, Permits
from api.controller.records import DrainRecord, NewDrain, Said, new_token
from api.store.views import ReportView
from slurm.errors import SlurmError
from slurm.hostlist import HostlistError, expand
from slurm.job import JobState
from slurm.ownership import Result, replace_prolog_error
from slurm.reason import compose
from slurm.state import NodeState

log = logging.getLogger(__name__)
# Slurm writes its reason when it learns of the exit; the clocks of node and controller may differ a little.
BEFORE = timedelta(seconds=30)
AFTER = timedelta(seconds=60)
LOOK_SECONDS = 30.0


async def requeue_late(core: Core, permits: Permits) -> None:
    """A drain that landed after the hook's answer: requeue that job, but only for codes that break every job."""
    if not permits.late:
        return
    opened = await asyncio.to_thread(core.records.open_drains, core.cluster)
    for node, late in list(permits.late.items()):
        record = opened.get(node)
        if record is not None and record.id == late.record.id and record.state == "intent":
            continue
        del permits.late[node]
        if record is not None and record.id == late.record.id:
            await core.spare(node, _requeue(core, late, record))


async def _requeue(core: Core, late: Late, record: DrainRecord) -> None:
    if not any((rule := core.policy.codes.get(code)) and rule.breaks_every_job for code in record.codes):
        return
    try:
        job = await core.view.call(core.view.backend.job, late.job.job_id)
        if job is None or not _still(job, late, record.node):
            return
        pen = await core.pen()
        await pen.tell(record.node, f"requeue of job {late.job.key}", core.view.backend.requeue, late.job.job_id)
    except (SlurmError, TimeoutError) as error:
        log.warning("requeue failed job=%s why=%s", late.job.key, error)
        return
    await asyncio.to_thread(
        core.audit, "requeue", record.node, f"job {late.job.key} had been admitted; {record.reason}"
    )


def _still(job: JobState, late: Late, node: str) -> bool:
    """Whether the attempt that was admitted runs there yet: one that has ended would run a second time."""
    then, now = late.job.restart_count, job.restart_count
    if not job.running or (then is not None and now is not None and then != now):
        return False
    try:
        return job.nodelist is None or node in expand(job.nodelist)
    except HostlistError:
        return False


class PrologErrors:
    """Nodes that Slurm drained with a bare "Prolog error", and what we know of them."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._looked: dict[str, tuple[datetime | None, float]] = {}

    async def explain(self) -> None:
        """Replace the error by our reason where our record shows our refusal there; else only say so."""
        core, bare = self._core, set()
        for name, state in core.view.states.items():
            reason = state.active_reason
            if reason is None or not reason.text.startswith("Prolog error") or state.hands_off:
                continue
            bare.add((name, "prolog_error_unexplained"))
            if self._due(name, reason.at):
                await core.spare(name, self._one(name, state))
        self._looked = {n: seen for n, seen in self._looked.items() if (n, "prolog_error_unexplained") in bare}
        await asyncio.to_thread(
            core.notices.keep, lambda key, _: key[1] == "prolog_error_unexplained", bare, "no longer so"
        )

    def _due(self, node: str, at: datetime | None) -> bool:
        """A report of ours may come later than Slurm's reason, so it is looked for again, but not every round."""
        seen = self._looked.get(node)
        now = time.monotonic()
        if seen is not None and seen[0] == at and now - seen[1] < LOOK_SECONDS:
            return False
        self._looked[node] = (at, now)
        return True

    async def _one(self, node: str, state: NodeState) -> None:
        core = self._core
        refusal = await asyncio.to_thread(_refusal, core, node, state)
        if refusal is None:
            text = "drained by slurm with a prolog error that is not ours: look at slurmd's log"
            await asyncio.to_thread(core.incident, node, "prolog_error_unexplained", text)
        else:
            await _replace(core, node, refusal)


def _refusal(core: Core, node: str, state: NodeState) -> ReportView | None:
    """Our own refusal of the moment of Slurm's reason, unless it has led to a drain of ours already."""
    at = state.reason.at if state.reason else None
    if at is None:
        return None
    for report in core.store.recent_reports(core.cluster, node, limit=20):
        decision, job, begun = report.decision, report.job, report.started_at
        if report.occasion != "prolog" or decision is None or decision.allowed != "refuse" or not decision.codes:
            continue
        if not begun - BEFORE <= at <= begun + timedelta(seconds=report.seconds) + AFTER:
            continue
        if job is None or not core.records.of_job(core.cluster, node, job.key, begun - AFTER):
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
    async with core.node_locks[node]:
        pen = await core.pen()
        record = await asyncio.to_thread(partial(core.records.intend, new, core.clock(), epoch=pen.epoch))
        try:
            outcome = await pen.change(node, replace_prolog_error, record.reason, we_refused=True)
        except (SlurmError, TimeoutError) as error:
            log.warning("prolog error not explained node=%s why=%s", node, error)
            return
        if outcome.unsure:
            return
        if outcome.result is not Result.WRITTEN:
            await asyncio.to_thread(core.records.change, record, core.clock(), state="failed", why=outcome.detail)
            return
        await asyncio.to_thread(_explained, core, record)
    if decision.permit and record.job:
        await asyncio.to_thread(core.records.spend_lease, core.cluster, node, decision.permit, record.job, core.clock())
    await asyncio.to_thread(core.solved, node, "prolog_error_unexplained", "our refusal")


def _explained(core: Core, record: DrainRecord) -> None:
    said = Said("prolog error explained", record.reason)
    core.records.written(record, core.clock(), "slurm's prolog error explained", said=said, boot=core.view.booted)
