"""A node of ours goes back only after clean verifications in a row, and only while its reason is ours."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from functools import partial

from api.controller.automatic import judge_now
from api.controller.burn_in import burns, done_by, enough, resting
from api.controller.clean import not_clean
from api.controller.core import Core
from api.controller.identity import look
from api.controller.orders import new_order
from api.controller.pace import DRAIN
from api.controller.probation import probation_of
from api.controller.records import DrainRecord, DrainState, Said
from api.store.views import ReportView
from checks.wire import Order
from slurm.errors import SlurmError
from slurm.ownership import OurRecord, Outcome, Result, resume_if_ours

log = logging.getLogger(__name__)
AGAIN_SECONDS = 60.0


async def verify(core: Core) -> None:
    """Move every drained node of ours one step along its way back."""
    for record in (await asyncio.to_thread(core.records.open_drains, core.cluster)).values():
        if record.state in ("drained", "verifying"):
            await core.spare(record.node, _one(core, record))


async def _one(core: Core, record: DrainRecord) -> None:
    record = await asyncio.to_thread(look, core, record)
    if _may(core, record):
        await _step(core, record)


def _may(core: Core, record: DrainRecord) -> bool:
    """Whether this drain may end now: asked for by a person, or one whose rule ends by verification alone."""
    if record.resume_by is not None:
        return True
    return core.settings.automation and record.automatic and record.step in ("verify", "burn-in")


async def _step(core: Core, record: DrainRecord) -> None:
    state = core.view.states.get(record.node)
    if state is None or not state.drained or not state.responding or state.hands_off or core.paused(record.node):
        return
    if core.working(record.node):
        return
    if record.order_id is None:
        await _ask(core, record)
        return
    report = await asyncio.to_thread(_answer, core, record)
    if report is not None:
        core.orders.done([record.order_id])
        await _judge(core, record, report)
    elif (
        record.order_at is None or abs((core.clock() - record.order_at).total_seconds()) > core.settings.verify_timeout
    ):
        core.orders.done([record.order_id])
        await _ask(core, await asyncio.to_thread(_silent, core, record))
    elif not core.orders.given(record.order_id):
        # Asked by a server that is gone, and with it the order; the same one again, should it be under way.
        core.orders.give(core.cluster, record.node, Order(id=record.order_id, kind="verify"))


def _silent(core: Core, record: DrainRecord) -> DrainRecord:
    """Nobody answered: the row of clean rounds is broken, and the question is asked anew."""
    limit = core.settings.verify_timeout
    core.incident(record.node, "verify_silent", f"verification not answered within {limit:g} s; node stays drained")
    return core.records.change(record, core.clock(), state="drained", order_id=None, rounds=0)


async def _ask(core: Core, record: DrainRecord) -> None:
    """Order a verification; without a sign that the fault has gone an automatic one is not even asked for."""
    if record.resume_by is None:
        if _too_soon(core, record):
            return
        findings = await asyncio.to_thread(core.store.current_findings, core.cluster, record.node)
        if not findings or judge_now(core, findings, core.clock()).wanted != "admit":
            if record.rounds or record.state != "drained":
                await asyncio.to_thread(core.records.change, record, core.clock(), state="drained", rounds=0)
            return
        if resting(core, record):
            return
    order = core.orders.give(core.cluster, record.node, new_order("verify", deep=burns(record)))
    await asyncio.to_thread(
        core.records.change, record, core.clock(), state="verifying", order_id=order.id, order_at=core.clock()
    )


def _too_soon(core: Core, record: DrainRecord) -> bool:
    """Whether a verification has just failed: a node is not tested without end because its looks contradict."""
    if record.rounds or record.order_at is None or record.state != "drained":
        return False
    return 0 <= (core.clock() - record.order_at).total_seconds() < AGAIN_SECONDS


def _answer(core: Core, record: DrainRecord) -> ReportView | None:
    """The report that answers our order, if it has come; one of a boot that is over answers nothing."""
    reports: Iterable[ReportView] = core.store.recent_reports(core.cluster, record.node, limit=20)
    found = next((r for r in reports if f"order:{record.order_id}" in r.notes), None)
    return found if found is not None and found.boot_id == core.boot_of(record.node) else None


async def _judge(core: Core, record: DrainRecord, report: ReportView) -> None:
    if why := not_clean(report, record.checks, core.policy):
        await asyncio.to_thread(_failed, core, record, why)
        return
    await asyncio.to_thread(core.solved, record.node, "verify_silent", "verified")
    # Rounds of two boots are not in a row: what came up may be another machine.
    rounds = record.rounds + 1 if report.boot_id == record.boot_seen else 1
    since = record.clean_since if rounds > 1 and record.clean_since else core.clock()
    change = partial(core.records.change, record, core.clock(), rounds=rounds, boot_seen=report.boot_id)
    record = await asyncio.to_thread(partial(change, clean_since=since))
    if not enough(core, record):
        record = await asyncio.to_thread(partial(core.records.change, record, core.clock(), order_id=None))
        await _ask(core, record)
        return
    if core.settings.verify_by == "job":
        await core.trials.begin(record)
        return
    await give_back(core, record, done_by(core, record), actor=record.resume_by or "controller")


def _failed(core: Core, record: DrainRecord, why: str) -> None:
    """A bad verification ends a person's request too: a person asks again once the node is mended."""
    said = Said("verification failed", why)
    core.records.change(
        record, core.clock(), said=said, state="drained", order_id=None, rounds=0, resume_by=None, why=why
    )
    log.warning("verification failed node=%s why=%s", record.node, why)


async def give_back(core: Core, record: DrainRecord, why: str, *, actor: str, verified: bool = True) -> bool:
    """Resume in Slurm if the reason is still this record's; anything else is left alone.

    That it is about to happen is written down first: a node that is in service after a crash was given back by us.
    """
    if actor == "controller":
        await core.pace.turn(DRAIN)
    async with core.node_locks[record.node]:
        if working := core.working(record.node):
            await asyncio.to_thread(core.incident, record.node, "resume_failed", f"not given back: {working}")
            return False
        pen = await core.pen()
        rounds = max(1, record.rounds) if verified else 0
        intent = partial(core.records.change, record, core.clock(), epoch=pen.epoch)
        record = await asyncio.to_thread(partial(intent, state="resuming", why=why, rounds=rounds))
        if record.state != "resuming":
            return False
        ours, by_person = OurRecord(record.reason, record.reason_before), record.resume_by is not None
        try:
            outcome = await pen.change(record.node, resume_if_ours, ours, by_person=by_person)
        except (SlurmError, TimeoutError) as error:
            await asyncio.to_thread(core.incident, record.node, "resume_failed", str(error))
            return False
        if outcome.unsure:
            await asyncio.to_thread(core.incident, record.node, "resume_failed", outcome.detail)
            return False
        await asyncio.to_thread(_resumed, core, record, outcome, actor)
    return outcome.result is Result.WRITTEN


_AFTER_RESUME: dict[Result, DrainState] = {
    Result.IN_SERVICE: "resumed_outside",
    Result.KEPT: "taken_over",
    Result.LOST_RACE: "taken_over",
}


def _resumed(core: Core, record: DrainRecord, outcome: Outcome, actor: str) -> None:
    """Settle the record by what Slurm holds now; where nothing is certain it stays open and is tried again."""
    if outcome.result is Result.WRITTEN:
        resumed(core, record, record.why, actor=actor)
        return
    state = _AFTER_RESUME.get(outcome.result, "drained")
    said = Said("resume not written", f"{outcome.result.value}: {outcome.detail}", actor)
    core.records.change(record, core.clock(), said=said, state=state, order_id=None, rounds=0, why=outcome.detail)
    if state == "drained":
        core.view.suspect()
        core.incident(record.node, "resume_failed", outcome.detail)


def resumed(core: Core, record: DrainRecord, why: str, *, actor: str) -> DrainRecord:
    """The node is in service again by our hand."""
    verified = record.verified
    record = core.records.change(
        record,
        core.clock(),
        said=Said("resume", why, actor),
        state="resumed" if verified else "resumed_unverified",
        why=why,
        order_id=None,
        rounds=0,
        slurm_boot=core.view.booted,
        probation_until=probation_of(core, record, verified=verified),
    )
    core.count("resumes_total")
    core.solved(record.node, "resume_failed", "resumed")
    log.warning("resumed node=%s why=%s", record.node, why)
    return record
