"""Each open drain record is held against what Slurm says now, so that nobody else's hand is overlooked."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from api.controller.core import Core
from api.controller.drain_record import NEVER_TAKEN, REPLACED
from api.controller.forgotten import forgot, write_again, write_reason
from api.controller.records import DrainRecord, DrainState, Said
from api.controller.trial_end import down_by_slurm
from api.controller.verify import resumed
from slurm.ownership import OurRecord, stands
from slurm.reason import needs_repair, parse
from slurm.state import NodeState

log = logging.getLogger(__name__)
INTENT_SECONDS = REASON_SECONDS = LANDING_SECONDS = 60.0
UNKNOWN = "slurm knows no such node"


@dataclass(slots=True)
class _Due:
    """What must be written to Slurm anew: drains that it forgot, reasons that it does not show yet."""

    drains: list[DrainRecord] = field(default_factory=list)
    reasons: list[DrainRecord] = field(default_factory=list)


async def reconcile(core: Core) -> None:
    """Settle every open record against the last bulk read; records younger than that read wait for the next."""
    if core.view.read_at is None or core.view.error:
        return
    opened = await asyncio.to_thread(core.records.open_drains, core.cluster)
    if any(_surprising(core, record) for record in opened.values()) and not await core.view.same_slurmctld():
        return
    due = await asyncio.to_thread(_reconcile, core, opened)
    for record in due.drains:
        await core.spare(record.node, write_again(core, record))
    for record in due.reasons:
        await core.spare(record.node, write_reason(core, record))


def landing(core: Core) -> bool:
    """Whether a drain of ours is just landing, so that Slurm is worth a question before its time."""
    now = core.clock()
    return any(
        r.state in ("intent", "draining", "resuming") and abs((now - r.changed_at).total_seconds()) < LANDING_SECONDS
        for r in core.records.open_drains(core.cluster).values()
    )


def _surprising(core: Core, record: DrainRecord) -> bool:
    """Whether Slurm does not hold what the record says, so that it matters which slurmctld says so."""
    state = core.view.states.get(record.node)
    if state is None or not settled(core, record) or record.state in ("intent", "testing", "resuming"):
        return False
    return not state.out_of_service or _token(state) != record.token


def settled(core: Core, record: DrainRecord) -> bool:
    """Whether the last bulk read is younger than the record, and no hand of ours is on the node now."""
    at = core.view.read_at
    # A change that seems to lie ahead was written before the clock was set back.
    if at is None or at <= record.changed_at <= core.clock():
        return False
    return not core.node_locks[record.node].locked()


def _reconcile(core: Core, opened: dict[str, DrainRecord]) -> _Due:
    due = _Due()
    for record in opened.values():
        if not settled(core, record):
            continue
        state = core.view.states.get(record.node)
        if state is None:
            _unknown(core, record)
            continue
        if record.why.startswith(UNKNOWN):
            record = core.records.change(record, core.clock(), why="slurm knows the node again")
        if forgot(core, record) and _lost(core, record, state):
            due.drains.append(record)
            continue
        target, why = _standing(core, record, state)
        if target != record.state:
            record = _move(core, record, target, why)
        if record.open and _token(state) == record.token:
            _seen(core, record)
            if _old_reason(core, record, state):
                due.reasons.append(record)
    return due


def _text(state: NodeState) -> str:
    return state.active_reason.text if state.active_reason else ""


def _token(state: NodeState) -> str:
    ours = parse(_text(state))
    return ours.token if ours is not None else ""


def _seen(core: Core, record: DrainRecord) -> None:
    """Remember which slurmctld is known to hold the drain."""
    boot = core.view.booted
    if boot is not None and record.slurm_boot != boot and record.state not in ("intent", "resuming"):
        core.records.change(record, core.clock(), slurm_boot=boot)


def _old_reason(core: Core, record: DrainRecord, state: NodeState) -> bool:
    """Whether Slurm still, or again, shows what was renewed; one that it does not take is tried once a minute."""
    if not record.reason_before or not stands(_text(state), OurRecord(record.reason_before)):
        return False
    return not 0 <= (core.clock() - record.changed_at).total_seconds() < REASON_SECONDS


def _lost(core: Core, record: DrainRecord, state: NodeState) -> bool:
    """Whether Slurm is back at what it held before the drain: nothing, or the drain of ours that this one replaced."""
    if record.state in ("intent", "testing", "resuming"):
        return False
    if not state.out_of_service:
        return True
    older = core.records.by_token(_token(state)) if _token(state) else None
    return older is not None and older.id < record.id and older.node == record.node and older.why == REPLACED


def _unknown(core: Core, record: DrainRecord) -> None:
    """A node that Slurm has not known for ``retire_after`` seconds is gone, and its drain is over."""
    if not record.why.startswith(UNKNOWN):
        core.records.change(record, core.clock(), why=f"{UNKNOWN} since {core.clock():%Y-%m-%d %H:%M} UTC")
    elif (core.clock() - record.changed_at).total_seconds() >= core.settings.retire_after:
        core.orders.done([record.order_id] if record.order_id else [])
        _move(core, record, "retired", record.why)


def _standing(core: Core, record: DrainRecord, state: NodeState) -> tuple[DrainState, str]:
    """Where the drain stands in truth, and the sentence that says how we know."""
    if not state.out_of_service:
        return _in_service(core, record)
    text = state.reason.text if state.reason else ""
    if _token(state) != record.token:
        if needs_repair(text) or (record.state == "testing" and down_by_slurm(state)):
            return record.state, ""
        if record.state == "intent":
            return "failed", f"somebody else was quicker: {text!r}"
        return "taken_over", f"reason is now {text!r}"
    if record.state in ("verifying", "testing"):
        return record.state, ""
    if record.state == "resuming" and record.order_id is not None:
        return "verifying", "slurm did not take the resume"
    return ("drained", "no job left") if state.drained else ("draining", "jobs still end")


def _in_service(core: Core, record: DrainRecord) -> tuple[DrainState, str]:
    if record.state == "testing":
        # In a reservation of ours, and whether that is so is asked where the trial is run.
        return "testing", ""
    if record.state == "intent":
        age = (core.clock() - record.changed_at).total_seconds()
        return ("intent", "") if age < INTENT_SECONDS else ("failed", NEVER_TAKEN)
    if record.state == "resuming":
        return ("resumed" if record.verified else "resumed_unverified"), record.why
    return "resumed_outside", "resumed by somebody else"


def _move(core: Core, record: DrainRecord, target: DrainState, why: str) -> DrainRecord:
    now = core.clock()
    if target in ("resumed", "resumed_unverified"):
        return resumed(core, record, f"{why}; slurm's answer was lost", actor=record.resume_by or "controller")
    if record.state == "intent" and target in ("draining", "drained"):
        said = Said("drain", f"{record.reason}; written before the answer was lost", record.actor)
        written = "written before the answer was lost"
        record = core.records.written(record, now, written, said=said, boot=core.view.booted)
    said_so = Said(f"drain {target.replace('_', ' ')}", why) if target in _AUDITED else None
    log.info("drain moved node=%s from=%s to=%s why=%s", record.node, record.state, target, why)
    return core.records.change(record, now, said=said_so, state=target, why=why)


_AUDITED = frozenset({"taken_over", "resumed_outside", "failed", "retired"})
