"""A node in repair is left alone under a ticket until a person says that it is ready; no time ends that."""

from __future__ import annotations

import asyncio

from api.controller.core import Core
from api.controller.quiet import NO_END
from api.ports import DrainRow
from checks.wire import clean
from slurm.hostlist import expand
from slurm.reason import one_line

NODES_LIMIT = 20_000
REASON_LIMIT = 160


async def repair(core: Core, nodes: str, ticket: str, reason: str, actor: str) -> list[DrainRow]:
    """Begin repairs; a node that still serves jobs is refused, since hands off would leave its jobs unvetted."""
    names = list(dict.fromkeys(expand(nodes, limit=NODES_LIMIT)))
    await core.view.refresh()
    refused = {name: why for name in names if (why := _serves(core, name))}
    chosen = [name for name in names if name not in refused]
    now = core.clock()
    text, number = one_line(reason, REASON_LIMIT), one_line(ticket, 64)
    if chosen:
        await asyncio.to_thread(core.quiet.pause, chosen, now + NO_END, text, actor, now, ticket=number)
        await asyncio.to_thread(core.audit, "repair", nodes[:500], f"ticket {number}: {text}", actor=actor)
    for name in chosen:
        core.orders.wake(core.cluster, name)
    return [_row(core, name, refused.get(name)) for name in names]


def _serves(core: Core, name: str) -> str:
    state = core.view.states.get(name)
    if core.view.error:
        return f"slurm does not answer: {core.view.error}"
    if state is None:
        return f"slurm knows no node {name}"
    if not state.out_of_service and not state.hands_off:
        return "in service: drain it first, with nodevet drain"
    return ""


def _row(core: Core, name: str, refused: str | None) -> DrainRow:
    state = core.view.states.get(name)
    return DrainRow(
        cluster=core.cluster,
        node=name,
        outcome="refused" if refused else "done",
        why=clean(refused or core.paused(name) or "in repair"),
        state=str(state) if state else None,
        running_jobs=state.running_jobs if state else None,
    )
