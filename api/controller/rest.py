"""What people ask to rest: nodes paused and made ready again, findings silenced, each answered node by node."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from datetime import timedelta

from api.controller.core import Core, first_lines
from api.ports import DrainRow, SilenceView
from checks.wire import clean
from slurm.hostlist import expand
from slurm.reason import one_line

NODES_LIMIT = 20_000
REASON_LIMIT = 160
SILENCED = "silenced"


async def pause(core: Core, nodes: str, seconds: float, reason: str, actor: str) -> list[DrainRow]:
    """Keep hands off these nodes; one that Slurm does not know, or does not answer for, is paused as well."""
    every = list(dict.fromkeys(expand(nodes, limit=NODES_LIMIT)))
    # A pause ends by itself, and would end the repair with it.
    names = [name for name in every if not core.ticket(name)]
    now = core.clock()
    until, text = now + timedelta(seconds=seconds), one_line(reason, REASON_LIMIT)
    await asyncio.to_thread(core.quiet.pause, names, until, text, actor, now)
    await asyncio.to_thread(
        core.audit, "pause", nodes[:500], f"until {until:%Y-%m-%d %H:%M:%S} UTC: {text}", actor=actor
    )
    for name in names:
        core.orders.wake(core.cluster, name)
    return [
        _row(core, n, "done" if n in names else "unchanged", (core.paused(n) or "paused") + _stranger(core, n))
        for n in every
    ]


def _stranger(core: Core, name: str) -> str:
    """Said, not refused: a node may be paused before Slurm hears of it, but it is more often a slip of the finger."""
    return "; slurm knows no such node" if core.view.states and name not in core.view.states else ""


async def unpause(core: Core, nodes: str, actor: str) -> list[DrainRow]:
    """End the pauses of these nodes and have each verified, paused or not: that is what ends a maintenance."""
    names = list(dict.fromkeys(expand(nodes, limit=NODES_LIMIT)))
    mended = [name for name in names if core.ticket(name)]
    had = await asyncio.to_thread(core.quiet.unpause, names, actor, core.clock())
    # At once: a round that begins now is not to judge by what was seen before.
    await core.wave.want(names, "ready", f"said to be ready by {actor}", actor)
    await asyncio.to_thread(
        core.audit, "ready", nodes[:500], f"{len(had)} pauses ended, verification asked", actor=actor
    )
    for name in names:
        core.orders.wake(core.cluster, name)
    back = await asyncio.to_thread(_mended, core, mended, actor)
    return [
        _row(core, n, "done" if n in had else "unchanged", _ready_words(n, had, back) + _stranger(core, n))
        for n in names
    ]


def _ready_words(name: str, had: Collection[str], back: Collection[str]) -> str:
    if name in back:
        return "repair ended; resumed when verification is clean"
    return "pause ended, verification asked" if name in had else "was not paused; verification asked"


def _mended(core: Core, names: Sequence[str], actor: str) -> frozenset[str]:
    """Of the nodes that were in repair, those that go back by that word: a person's own drain waits for a resume."""
    opened = core.records.open_drains(core.cluster)
    mine = [r for n in names if (r := opened.get(n)) is not None and r.automatic]
    for record in mine:
        core.records.change(record, core.clock(), resume_by=actor, order_id=None, order_at=None, rounds=0)
        core.audit("resume asked", record.node, "repair ended, verification first", actor=actor)
    return frozenset(r.node for r in mine)


async def silence(
    core: Core, check: str, nodes: str, partition: str, seconds: float, reason: str, actor: str
) -> list[SilenceView]:
    """Have findings lead to nothing for a time."""
    names = list(dict.fromkeys(expand(nodes, limit=NODES_LIMIT))) if nodes else []
    now = core.clock()
    until, text = now + timedelta(seconds=seconds), one_line(reason, REASON_LIMIT)
    made = await asyncio.to_thread(core.quiet.silence, check, names, partition, until, text, actor, now)
    subject = f"check {check or 'all'}, nodes {nodes[:300] or 'all'}, partition {partition or 'all'}"
    await asyncio.to_thread(core.audit, "silence", subject, f"until {until:%Y-%m-%d %H:%M:%S} UTC: {text}", actor=actor)
    await asyncio.to_thread(loud, core)
    return made


async def unsilence(core: Core, number: int, actor: str) -> bool:
    """End a silence."""
    done = await asyncio.to_thread(core.quiet.unsilence, number, actor, core.clock())
    if done:
        await asyncio.to_thread(core.audit, "silence ended", str(number), "", actor=actor)
        await asyncio.to_thread(loud, core)
    return done


async def keep_time(core: Core) -> None:
    """Read what is in force, verify the nodes whose pause has ended by itself, and say what is silenced."""
    ended = await asyncio.to_thread(core.quiet.load, core.clock())
    for node in ended:
        await asyncio.to_thread(core.audit, "pause ended", node, "its time is over, verification asked")
    await core.wave.want(ended, "ready", "its pause is over")
    await asyncio.to_thread(loud, core)


def loud(core: Core) -> None:
    """Silence is an open incident as long as it lasts: nobody is to wonder later why nothing was said."""
    found = core.quiet.silences(core.clock())
    if not found:
        if core.notices.said("", SILENCED):
            core.solved("", SILENCED, "nothing is silenced any more")
        return
    told = [
        f"{s.check or 'all checks'} on {s.node or s.partition or 'all nodes'} until {s.until:%m-%d %H:%M}"
        for s in found
    ]
    core.incident("", SILENCED, f"findings lead to nothing: {first_lines(told)}")


def _row(core: Core, name: str, outcome: str, why: str) -> DrainRow:
    state = core.view.states.get(name)
    return DrainRow(
        cluster=core.cluster,
        node=name,
        outcome="done" if outcome == "done" else "unchanged",
        why=clean(why),
        state=str(state) if state else None,
        running_jobs=state.running_jobs if state else None,
    )
