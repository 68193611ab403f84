"""A drain under a reason of our form that no open record speaks of becomes ours because a person says so."""

from __future__ import annotations

import asyncio

from api.controller.core import Core
from api.controller.forgotten import reopen
from api.controller.records import DrainRecord, NewDrain, Said
from slurm.reason import parse


async def adopted(core: Core, name: str, actor: str) -> DrainRecord | None:
    """The record for it, reopened or made; None where the reason's record is another node's."""
    async with core.node_locks[name]:
        return await asyncio.to_thread(_adopt, core, name, actor)


def _adopt(core: Core, name: str, actor: str) -> DrainRecord | None:
    state = core.view.states[name]
    ours = parse(state.active_reason.text) if state.active_reason else None
    if ours is None or state.active_reason is None:
        return None
    record = core.records.by_token(ours.token)
    if record is not None:
        mine = (record.cluster, record.node) == (core.cluster, name)
        return reopen(core, record, state, f"{actor} asks for it back", actor=actor) if mine else None
    text = state.active_reason.text.removesuffix(ours.appended)
    new = NewDrain(
        cluster=core.cluster,
        node=name,
        owner=ours.owner.value,
        actor="unknown",
        codes=(ours.code,) if ours.code else (),
        token=ours.token,
        reason=text,
        step="person",
    )
    said = Said("drain adopted", text, actor)
    made = core.records.intend(new, core.clock())
    return core.records.written(made, core.clock(), "no record knew it", said=said, boot=core.view.booted)
