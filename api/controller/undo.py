"""An operation is undone on exactly those nodes that still are as it left them; of the others it is told why not."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Literal

from api.controller.core import Core
from api.controller.drain_record import DrainRecord, Said
from api.controller.operations import BEGUN
from api.controller.people import PERSON, drain_one, resume_now, row
from api.operation import OperationNode, OperationView
from api.ports import DrainRow
from slurm.reason import PREFIX, owner_of, parse

Way = Literal["resume", "drain", "call off"]


class UndoError(ValueError):
    """There is no such operation, or none that can be undone."""


@dataclass(frozen=True, slots=True)
class Step:
    """What undoing means for one node, or why nothing is done there."""

    node: str
    why: str
    way: Way | None = None
    record: DrainRecord | None = None


async def undo(core: Core, number: int | None, actor: str, *, dry_run: bool) -> list[DrainRow]:
    """Undo an operation, by default the actor's last; raises UndoError where there is nothing of the kind."""
    found = await asyncio.to_thread(_find, core, number, actor)
    await core.view.refresh()
    steps = await asyncio.to_thread(lambda: [_step(core, found, item) for item in found.items])
    if dry_run:
        return [row(core, s.node, "planned" if s.way else "refused", s.why, operation=found.id) for s in steps]
    book, text = core.operations, f"undo of operation {found.id}"
    mine = await asyncio.to_thread(lambda: book.begin("undo", found.nodes, text, actor, core.clock(), undoes=found.id))
    await asyncio.to_thread(core.audit, "undo asked", found.nodes[:200], text, actor=actor)
    rows = [await _take(core, step, actor, mine, text) for step in steps]
    await asyncio.to_thread(lambda: book.finish(mine, rows, undoes=found.id))
    await core.view.refresh()
    return rows


def _find(core: Core, number: int | None, actor: str) -> OperationView:
    if number is None:
        found = core.operations.last(actor)
        if found is None:
            raise UndoError(f"no drain or resume by {actor} is left to undo")
        return found
    found = core.operations.one(number)
    if found is None:
        raise UndoError(f"no operation {number}")
    if found.verb == "undo":
        raise UndoError(f"operation {number} is an undo of {found.undoes}; drain or resume instead")
    return found


def _step(core: Core, operation: OperationView, item: OperationNode) -> Step:
    """What undoing this operation means on one node now; reads the database."""
    if item.drain is None and item.outcome in ("done", "failed", BEGUN):
        return Step(item.node, f"it ended a drain that was slurm's own, which is not ours to put back: {item.why}")
    if item.drain is None or item.outcome in ("refused", "unchanged"):
        return Step(item.node, f"the operation changed nothing there: {item.why}")
    record = core.records.one(item.drain)
    if record is None or (state := core.view.states.get(item.node)) is None:
        return Step(item.node, core.view.error or f"slurm knows no node {item.node}")
    if state.hands_off:
        return Step(item.node, f"hands off: {state.hands_off}")
    return _of_drain(core, record, item) if operation.verb == "drain" else _of_resume(core, record, operation)


def _of_drain(core: Core, record: DrainRecord, item: OperationNode) -> Step:
    """Back into service, where our reason of that drain is the one that stands."""
    node, state = record.node, core.view.states[record.node]
    ours = parse(state.reason.text) if state.reason else None
    if owner_of(state) is None:
        return Step(node, "is in service already")
    if paused := core.paused(node):
        return Step(node, paused)
    if not record.open or ours is None or ours.token != record.token or record.owner != PERSON:
        now = state.reason.text if state.reason else ""
        return Step(node, f"is not as the operation left it: reason is now {now!r}")
    if record.resume_by:
        return Step(node, f"its return was asked for by {record.resume_by} since")
    if record.checks or f" {PREFIX} " in item.before:
        return Step(node, "was drained by us for a fault before: nodevet resume verifies it")
    view = core.store.node(core.cluster, node)
    if view is not None and view.verdict == "faulty":
        return Step(node, f"is faulty now ({view.summary}): nodevet resume verifies it")
    return Step(node, "would be in service again", "resume", record)


def _of_resume(core: Core, record: DrainRecord, operation: OperationView) -> Step:
    """Out of service again under its old words, where it still is as that resume left it."""
    node, state = record.node, core.view.states[record.node]
    if record.open:
        if record.resume_by != operation.actor:
            return Step(node, "its resume is over: a verification was not clean, or somebody else asked since")
        if record.state in ("testing", "resuming"):
            return Step(node, "is being tried, or given back, just now: that is not called off; nodevet drain after it")
        return Step(node, "would call the verification off; it stays drained", "call off", record)
    last = core.records.last(core.cluster, node)
    if record.state not in ("resumed", "resumed_unverified") or last is None or last.id != record.id:
        return Step(node, f"is not as the operation left it: {record.state.replace('_', ' ')}, {record.why}")
    if owner_of(state) is not None:
        now = state.reason.text if state.reason else ""
        return Step(node, f"is out of service again: {now!r}")
    return Step(node, "would drain again under its former reason", "drain", record)


async def _take(core: Core, step: Step, actor: str, number: int, text: str) -> DrainRow:
    record = step.record
    if step.way is None or record is None:
        return row(core, step.node, "refused", step.why, operation=number)
    if step.way == "drain":
        former = parse(record.reason)
        words = former.detail if former is not None else text
        if record.automatic:
            words = f"{', '.join(record.codes)} {words}"
        return await drain_one(core, step.node, words, actor, record, number)
    await asyncio.to_thread(core.operations.touches, number, step.node, record.id, core.view.states.get(step.node))
    if step.way == "resume":
        return await resume_now(core, record, actor, force=False, why=text, operation=number)
    return await asyncio.to_thread(_call_off, core, record, actor, number, text)


def _call_off(core: Core, record: DrainRecord, actor: str, number: int, text: str) -> DrainRow:
    if record.order_id:
        core.orders.done([record.order_id])
    state = "drained" if record.state == "verifying" else record.state
    asked = partial(core.records.change, record, core.clock(), resume_by=None, order_id=None, order_at=None, rounds=0)
    asked(state=state, why=text, said=Said("resume called off", text, actor))
    return row(core, record.node, "done", "verification called off, it stays drained", operation=number)
