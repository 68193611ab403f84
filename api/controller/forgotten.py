"""A slurmctld that dies forgets what it had not saved: our drains are written again, our resumes are done again.

Slurm says of itself only when it was started. A record remembers which slurmctld was last seen to hold what it says;
where another one answers and holds something else, Slurm forgot. Where the same one answers, somebody's hand did it.
"""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime
from functools import partial

from api.controller.core import Core
from api.controller.drain_record import FORGETTABLE, NEVER_TAKEN, DrainState
from api.controller.records import DrainRecord, Said
from slurm.errors import SlurmError
from slurm.ownership import OurRecord, Outcome, Result, drain_if_free, renew_reason
from slurm.reason import parse
from slurm.state import NodeState

log = logging.getLogger(__name__)
UNOWNED = "drain_unowned"


def forgot(core: Core, record: DrainRecord) -> bool:
    """Whether another slurmctld answers than the one that was last seen to hold what the record says."""
    now = core.view.booted
    return now is not None and record.slurm_boot is not None and now != record.slurm_boot


async def write_again(core: Core, record: DrainRecord) -> None:
    """Drain once more under the same record: it is the same drain, for the same fault."""
    state = core.view.states.get(record.node)
    if state is None or state.hands_off or core.paused(record.node):
        return
    async with core.node_locks[record.node]:
        pen = await core.pen()
        if record.order_id is not None:
            core.orders.done([record.order_id])
        record = await asyncio.to_thread(_intend, core, record, pen.epoch)
        if not record.open:
            return
        try:
            outcome = await pen.change(record.node, drain_if_free, record.reason)
        except (SlurmError, TimeoutError) as error:
            await asyncio.to_thread(core.incident, record.node, "drain_failed", str(error))
            return
        await asyncio.to_thread(_again, core, record, outcome)


def _intend(core: Core, record: DrainRecord, epoch: int) -> DrainRecord:
    state: DrainState = "draining" if record.state == "draining" else "drained"
    why = f"slurm forgot the drain: its controller started {_when(core.view.booted)}"
    change = partial(core.records.change, record, core.clock(), epoch=epoch)
    return change(state=state, why=why, order_id=None, order_at=None, rounds=0)


def _again(core: Core, record: DrainRecord, outcome: Outcome) -> None:
    if outcome.result is not Result.WRITTEN:
        core.incident(record.node, "drain_failed", outcome.detail)
        return
    said = Said("drain written again", f"{record.reason}; {record.why}")
    core.records.change(record, core.clock(), said=said, slurm_boot=core.view.booted)
    core.count("drains_again_total")
    core.solved(record.node, "drain_failed", "drained")
    log.warning("drained again node=%s reason=%r why=%s", record.node, record.reason, record.why)


async def write_reason(core: Core, record: DrainRecord) -> None:
    """Show the record's present reason where Slurm still has the one before it."""
    async with core.node_locks[record.node]:
        pen = await core.pen()
        ours = OurRecord(record.reason, record.reason_before)
        try:
            outcome = await pen.change(record.node, renew_reason, ours)
        except (SlurmError, TimeoutError) as error:
            outcome = Outcome(Result.FAILED, str(error))
        said = None
        if outcome.result is Result.WRITTEN:
            said = Said("reason renewed", f"{record.reason}; was {ours.before}")
        else:
            log.warning("reason not renewed node=%s why=%s", record.node, outcome.detail)
        # A reason that Slurm does not take is not tried again every round.
        await asyncio.to_thread(partial(core.records.change, record, core.clock(), said=said))


class Ghosts:
    """Drains under a reason of ours that no open record speaks of."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._marked: datetime | None = None

    async def look(self) -> None:
        """Take back what Slurm forgot that we ended, and say aloud what is nobody's."""
        core, view = self._core, self._core.view
        opened = await asyncio.to_thread(core.records.open_drains, core.cluster)
        suspects = {n: s for n, s in view.states.items() if n not in opened and _ours(s)}
        if suspects and not await view.same_slurmctld():
            return
        unowned: set[tuple[str, str]] = set()
        for node, state in sorted(suspects.items()):
            if not core.node_locks[node].locked():
                await core.spare(node, asyncio.to_thread(_one, core, state, unowned))
        await asyncio.to_thread(core.notices.keep, lambda key, _: key[1] == UNOWNED, unowned, "no longer so")
        await self._mark(frozenset(n for n, s in view.states.items() if not s.out_of_service))

    async def _mark(self, serving: frozenset[str]) -> None:
        """Once a slurmctld: what is in service under it was given back for good."""
        core, boot = self._core, self._core.view.booted
        if boot is None or boot == self._marked:
            return
        if not await core.view.same_slurmctld() or boot != core.view.booted:
            return
        await asyncio.to_thread(core.records.outlived, core.cluster, serving, boot)
        self._marked = boot


def _ours(state: NodeState) -> bool:
    reason = state.active_reason
    return reason is not None and parse(reason.text) is not None


def _one(core: Core, state: NodeState, unowned: set[tuple[str, str]]) -> None:
    reason = state.active_reason
    ours = parse(reason.text) if reason else None
    assert ours is not None
    record = core.records.by_token(ours.token)
    if record is not None and (record.cluster, record.node) == (core.cluster, state.name):
        read_at = core.view.read_at
        if record.open or read_at is None or read_at <= record.changed_at <= core.clock():
            # The read is older than our last word on this drain.
            return
        if why := _came_back(core, record):
            reopen(core, record, state, why)
            return
    unowned.add((state.name, UNOWNED))
    core.incident(state.name, UNOWNED, _nobodys(state.name, record))


def _came_back(core: Core, record: DrainRecord) -> str:
    """Why a drain that is over stands again although nobody drained the node; empty where somebody may have."""
    if record.state in FORGETTABLE and forgot(core, record):
        whose = "the resume" if record.state == "resumed_outside" else "our resume"
        return f"slurm forgot {whose}: its controller started {_when(core.view.booted)}"
    if record.state == "failed" and record.why.startswith(NEVER_TAKEN):
        return "slurm took the drain after all"
    return "slurm knows the node again" if record.state == "retired" else ""


def reopen(core: Core, record: DrainRecord, state: NodeState, why: str, *, actor: str = "controller") -> DrainRecord:
    """Have a drain in force again."""
    stage: DrainState = "drained" if state.drained else "draining"
    said = Said("drain reopened", f"{record.reason}; {why}", actor)
    log.warning("drain reopened node=%s was=%s why=%s", record.node, record.state, why)
    return core.records.reopen(record, core.clock(), stage, why, said=said)


def _nobodys(node: str, record: DrainRecord | None) -> str:
    """What a person is told about a reason of our form that we do not stand for."""
    way = f"look at the node, then nodevet resume {node} verifies it and gives it back"
    if record is None:
        text = "no record of ours knows its token: the database was lost or restored, or another nodevet drained it"
    elif record.node != node:
        text = f"its token is that of a drain of {record.node}: somebody copied the reason"
    else:
        text = f"our record of it is over ({record.state}): somebody drained the node again under our old reason"
    return f"drained under a reason of our form, and {text}; it is not resumed by itself; {way}"


def _when(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC" if at else "at an unknown time"
