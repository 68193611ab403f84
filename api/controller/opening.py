"""A guard that is closed is said aloud, and a person with a name may open it for a time: every floor stays."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from api.controller.core import Core
from api.controller.fleet import fleet
from api.ports import GuardView, OverrideView
from checks.judge.guard import Tally
from slurm.reason import one_line

CLOSED = "guard_frozen"
OVERRIDDEN = "guard_overridden"
REASON_LIMIT = 160


async def override(core: Core, code: str, seconds: float, reason: str, actor: str) -> OverrideView:
    """Lift every ceiling, rate and correlation for one code, or for all where none is named."""
    return await asyncio.to_thread(_override, core, code, seconds, reason, actor)


def _override(core: Core, code: str, seconds: float, reason: str, actor: str) -> OverrideView:
    now, text = core.clock(), one_line(reason, REASON_LIMIT)
    made = core.words.override(code, now + timedelta(seconds=seconds), text, actor, now)
    core.audit("guard override", code or "every code", f"until {made.until:%Y-%m-%d %H:%M:%S} UTC: {text}", actor=actor)
    _loud(core)
    return made


async def end_override(core: Core, actor: str) -> bool:
    """Close the guard again before its time; whether it was open."""
    done = await asyncio.to_thread(core.words.end_override, actor, core.clock())
    if done:
        await asyncio.to_thread(core.audit, "guard override ended", "", "", actor=actor)
    await asyncio.to_thread(_loud, core)
    return done


def shown(core: Core) -> GuardView:
    """The guard's numbers now; reads the database."""
    seen = fleet(core)
    tally, total = Tally(seen, core.guard), len(seen.nodes)
    return GuardView(
        cluster=core.cluster,
        closed=tally.headroom() == 0,
        headroom=tally.headroom(),
        nodes=total,
        in_service=sum(v.in_service for v in seen.nodes.values()),
        floor=core.guard.floor(total),
        out_by_us=sum(v.ours for v in seen.nodes.values()),
        out_limit=core.guard.drained(total),
        promised=len(seen.promised),
        last_hour=len({p.node for p in seen.past}),
        hour_limit=core.guard.hourly(total),
        groups=len({g for v in seen.nodes.values() for g in v.groups}),
        block_size=core.guard.block_size or seen.block_size,
        overrides=tuple(core.words.overrides(core.clock())),
    )


def watch(core: Core) -> None:
    """Say that the guard is closed or overridden, and that it is so no more; reads and writes the database."""
    seen = shown(core)
    core.gauge("guard_closed", float(seen.closed and seen.nodes > 0))
    core.gauge("guard_overridden", float(bool(seen.overrides)))
    if seen.closed and seen.nodes and not seen.overrides:
        text = (
            f"no node can be drained by automation: {seen.out_by_us} out by us of at most {seen.out_limit}, "
            f"{seen.last_hour} in the last hour of at most {seen.hour_limit}, {seen.in_service} in service, "
            f"floor {seen.floor}"
        )
        core.incident("", CLOSED, text)
    elif core.notices.said("", CLOSED):
        core.solved("", CLOSED, "guard has room again")
    _loud(core)


def _loud(core: Core) -> None:
    found = core.words.overrides(core.clock())
    if found:
        told = f"{found[0].code or 'every code'} until {found[0].until:%Y-%m-%d %H:%M} UTC by {found[0].actor}"
        core.incident("", OVERRIDDEN, f"ceilings are lifted for {told}: {found[0].reason}")
    elif core.notices.said("", OVERRIDDEN):
        core.solved("", OVERRIDDEN, "over")
