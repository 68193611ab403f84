"""Each open drain record is held against what Slurm says now, so that nobody else's hand is overlooked."""

from __future__ import annotations

import asyncio
import logging

from api.controller.core import Core
from api.controller.records import DrainRecord, DrainState
from slurm.reason import needs_repair, parse
from slurm.state import NodeState

log = logging.getLogger(__name__)
INTENT_SECONDS = 60.0
LANDING_SECONDS = 60.0
UNKNOWN = "slurm knows no such node"


async def reconcile(core: Core) -> None:
    """Settle every open record against the last bulk read; records younger than that read wait for the next."""
    await asyncio.to_thread(_reconcile, core)


def landing(core: Core) -> bool:
    """Whether a drain of ours is just landing, so that Slurm is worth a question before its time."""
    now = core.clock()
    return any(
        r.state in ("intent", "draining") and abs((now - r.changed_at).total_seconds()) < LANDING_SECONDS
        for r in core.records.open_drains(core.cluster).values()
    )


def _reconcile(core: Core) -> None:
    if core.view.read_at is None or core.view.error:
        return
    for record in core.records.open_drains(core.cluster).values():
        state = core.view.states.get(record.node)
        # A change that seems to lie ahead was written before the clock was set back.
        if core.view.read_at <= record.changed_at <= core.clock():
            continue
        if state is None:
            _unknown(core, record)
            continue
        if record.why.startswith(UNKNOWN):
            record = core.records.change(record, core.clock(), why="slurm knows the node again")
        target, why = _standing(core, record, state)
        if target != record.state:
            _move(core, record, target, why)


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
        if record.state == "intent":
            age = (core.clock() - record.changed_at).total_seconds()
            return ("intent", "") if age < INTENT_SECONDS else ("failed", "slurm never took the drain")
        return "resumed_outside", "resumed by somebody else"
    text = state.reason.text if state.reason else ""
    ours = parse(text)
    if ours is None or ours.token != record.token:
        if needs_repair(text):
            return record.state, ""
        if record.state == "intent":
            return "failed", f"somebody else was quicker: {text!r}"
        return "taken_over", f"reason is now {text!r}"
    if record.state == "verifying":
        return "verifying", ""
    return ("drained", "no job left") if state.drained else ("draining", "jobs still end")


def _move(core: Core, record: DrainRecord, target: DrainState, why: str) -> None:
    if record.state == "intent" and target in ("draining", "drained"):
        record = core.records.written(record, core.clock(), "written before the answer was lost")
    core.records.change(record, core.clock(), state=target, why=why)
    if target in ("taken_over", "resumed_outside", "failed", "retired"):
        core.audit(f"drain {target.replace('_', ' ')}", record.node, why)
        log.warning("drain moved node=%s from=%s to=%s why=%s", record.node, record.state, target, why)
