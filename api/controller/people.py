"""Drains and resumes that a person asks for: previewed alike, never over a foreign reason, verified first."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

import msgspec

from api.controller.adopt import adopted
from api.controller.automatic import AUTOMATIC
from api.controller.core import Core
from api.controller.drain_record import NEVER_TAKEN
from api.controller.fleet import fleet
from api.controller.records import DrainRecord, NewDrain, Said, new_token
from api.controller.verify import give_back
from api.ports import DrainRow
from checks.judge.guard import Tally
from checks.wire import clean
from slurm.errors import SlurmError
from slurm.ownership import Outcome, Result, drain_if_free
from slurm.reason import Owner, compose_person, owner_of, parse
from slurm.select import select
from slurm.state import NodeState

PERSON = "person-through-us"
NODES_LIMIT = 20_000
Verb = Literal["drain", "resume"]
UNKNOWN_REASON = "reason is of our form, but no record of this node's is open: it goes back by verification only"


async def preview(core: Core, nodes: str, verb: Verb) -> list[DrainRow]:
    """What the verb would do to each node, with the guard's opinion of a drain; nothing is changed."""
    await core.view.refresh()
    opened = await asyncio.to_thread(core.records.open_drains, core.cluster)
    names = select(nodes, core.view.states, limit=NODES_LIMIT)
    return await asyncio.to_thread(_previewed, core, names, verb, opened)


def _previewed(core: Core, names: Sequence[str], verb: Verb, opened: Mapping[str, DrainRecord]) -> list[DrainRow]:
    tally = Tally(fleet(core), core.guard)
    rows = []
    for name in names:
        made = plan(core, name, verb, opened.get(name))
        if made.outcome == "planned" and verb == "drain" and not (ruling := tally.authorize(name, "person")).allowed:
            made = row(core, name, "planned", f"{made.why}; automation would not: {ruling.why}")
        rows.append(made)
    return rows


def plan(core: Core, name: str, verb: Verb, record: DrainRecord | None) -> DrainRow:
    """The outcome that the present state allows."""
    state = core.view.states.get(name)
    if state is None:
        return row(core, name, "refused", core.view.error or f"slurm knows no node {name}")
    if why := state.hands_off or (core.working(name) if verb == "resume" else ""):
        return row(core, name, "refused", f"hands off: {why}")
    owner = owner_of(state)
    if verb == "drain":
        if owner is Owner.OURS_AUTOMATIC and record is not None and _stands(state, record):
            return row(core, name, "planned", "would take over our own drain: then only a person ends it")
        if owner is None:
            return row(core, name, "planned", "would drain; running jobs end by themselves")
        return row(core, name, "unchanged", f"out of service already, owner {owner.value if owner else '-'}")
    return _plan_resume(core, state, owner, record)


def _plan_resume(core: Core, state: NodeState, owner: Owner | None, record: DrainRecord | None) -> DrainRow:
    name = state.name
    if owner is None:
        return row(core, name, "unchanged", "in service already")
    if owner not in (Owner.OURS_AUTOMATIC, Owner.PERSON_THROUGH_US):
        return row(core, name, "refused", _foreign(state))
    if record is None:
        return row(core, name, "planned", "no record of ours is open for it: would make one, verify, then resume")
    return row(core, name, "planned", "would verify, then resume")


def _stands(state: NodeState, record: DrainRecord) -> bool:
    """Whether the record's own reason is the node's present one."""
    ours = parse(state.reason.text) if state.reason else None
    return ours is not None and ours.token == record.token


def _foreign(state: NodeState) -> str:
    text = state.reason.text if state.reason else ""
    return f"reason is not ours: {text!r}; resume it with the tool that drained it"


def row(
    core: Core,
    name: str,
    outcome: Literal["planned", "done", "refused", "unchanged", "failed"],
    why: str,
    *,
    operation: int | None = None,
) -> DrainRow:
    """What became of one node, with what Slurm holds about it."""
    state = core.view.states.get(name)
    owner = owner_of(state) if state else None
    return DrainRow(
        cluster=core.cluster,
        node=name,
        outcome=outcome,
        why=clean(why),
        owner=owner.value if owner else None,
        reason=state.active_reason.text if state and state.active_reason else "",
        state=str(state) if state else None,
        running_jobs=state.running_jobs if state else None,
        operation=operation,
    )


async def drain(core: Core, nodes: str, reason: str, actor: str) -> list[DrainRow]:
    """Drain every free node of the list under the person's own words."""
    await core.view.refresh()
    names = select(nodes, core.view.states, limit=NODES_LIMIT)
    opened = await asyncio.to_thread(core.records.open_drains, core.cluster)
    number = await asyncio.to_thread(core.operations.begin, "drain", nodes, reason, actor, core.clock())
    rows = []
    for name in names:
        made = plan(core, name, "drain", opened.get(name))
        if made.outcome == "planned":
            made = await drain_one(core, name, reason, actor, opened.get(name), number)
        rows.append(msgspec.structs.replace(made, operation=number))
    await asyncio.to_thread(core.operations.finish, number, rows)
    await core.view.refresh()
    return rows


async def drain_one(
    core: Core, name: str, reason: str, actor: str, former: DrainRecord | None, operation: int
) -> DrainRow:
    """Drain one node for a person as a part of an operation."""
    token = new_token()
    # Taken over from us, the fault is still what the node must be free of before it goes back.
    checks = former.checks if former is not None else ()
    new = NewDrain(
        cluster=core.cluster,
        node=name,
        owner=PERSON,
        actor=actor,
        codes=(),
        checks=checks,
        token=token,
        step="person",
        reason=compose_person(reason, token=token),
    )
    async with core.node_locks[name]:
        pen = await core.pen()
        record = await asyncio.to_thread(partial(core.records.intend, new, core.clock(), epoch=pen.epoch))
        await asyncio.to_thread(core.operations.touches, operation, name, record.id, core.view.states.get(name))
        try:
            outcome = await pen.change(name, drain_if_free, record.reason)
        except (SlurmError, TimeoutError) as error:
            return row(core, name, "failed", str(error), operation=operation)
        if outcome.unsure:
            return row(core, name, "failed", outcome.detail, operation=operation)
        done = outcome.result is Result.WRITTEN
        await asyncio.to_thread(_written, core, record, outcome, actor)
    said = "drained" if done else outcome.detail
    return row(core, name, "done" if done else "unchanged", said, operation=operation)


def _written(core: Core, record: DrainRecord, outcome: Outcome, actor: str) -> None:
    now, done = core.clock(), outcome.result is Result.WRITTEN
    said = Said("drain" if done else "drain not written", record.reason, actor)
    if done:
        core.records.written(record, now, "written", said=said, boot=core.view.booted)
    else:
        why = f"{NEVER_TAKEN}: {outcome.detail}" if outcome.result is Result.FAILED else outcome.detail
        core.records.change(record, now, state="failed", why=why, said=said)


async def resume(core: Core, nodes: str, actor: str, *, verify: bool, force: bool) -> list[DrainRow]:
    """Give nodes of ours back: after verification, or at once with ``verify`` off and ``force`` said aloud."""
    await core.view.refresh()
    names = select(nodes, core.view.states, limit=NODES_LIMIT)
    opened = await asyncio.to_thread(core.records.open_drains, core.cluster)
    asked = "verified first" if verify else "without verification"
    number = await asyncio.to_thread(core.operations.begin, "resume", nodes, asked, actor, core.clock())
    rows = []
    for name in names:
        made, record = plan(core, name, "resume", opened.get(name)), opened.get(name)
        if made.outcome == "planned" and record is None:
            record = await adopted(core, name, actor) if verify else None
            made = made if record is not None else row(core, name, "refused", UNKNOWN_REASON)
        if made.outcome == "planned" and record is not None:
            await asyncio.to_thread(core.operations.touches, number, name, record.id, core.view.states.get(name))
            if verify:
                made = await asyncio.to_thread(_ask, core, record, actor)
            else:
                made = await resume_now(core, record, actor, force)
        rows.append(msgspec.structs.replace(made, operation=number))
    await asyncio.to_thread(core.operations.finish, number, rows)
    return rows


def _ask(core: Core, record: DrainRecord, actor: str) -> DrainRow:
    said = Said("resume asked", "verification first", actor)
    core.records.change(record, core.clock(), said=said, resume_by=actor, order_id=None, order_at=None, rounds=0)
    return row(core, record.node, "planned", "verification ordered; resumed when it is clean")


async def resume_now(
    core: Core,
    record: DrainRecord,
    actor: str,
    force: bool,
    *,
    why: str = "resumed without verification",
    operation: int | None = None,
) -> DrainRow:
    """Give a node back without a verification; a drain for a fault only by ``force``."""
    if record.owner == AUTOMATIC and not force:
        return row(core, record.node, "refused", "drained for a fault: resume without verification needs force")
    if hands := core.working(record.node) or core.paused(record.node):
        return row(core, record.node, "refused", hands)
    record = await asyncio.to_thread(core.records.change, record, core.clock(), resume_by=actor)
    done = await give_back(core, record, why, actor=actor, verified=False)
    await core.view.refresh()
    return row(core, record.node, "done" if done else "failed", why if done else "not resumed", operation=operation)
