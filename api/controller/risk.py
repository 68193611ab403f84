"""A person may have a faulty node used for a time, or say that a contest about it is settled; both are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

from api.controller.adopt import adopted
from api.controller.automatic import judge_now
from api.controller.belief import CONTESTED
from api.controller.core import Core
from api.controller.drain_record import DrainRecord
from api.controller.people import NODES_LIMIT, plan, resume_now, row
from api.controller.words import EVERY, why_accepted
from api.ports import DrainRow
from slurm.hostlist import expand
from slurm.reason import one_line

REASON_LIMIT = 160
ACCEPTED = "risk_accepted"


async def accept(core: Core, nodes: str, seconds: float, reason: str, actor: str) -> list[DrainRow]:
    """Give nodes of ours back as they are, and drain them for nothing that is known of them for some seconds."""
    await core.view.refresh()
    opened = await asyncio.to_thread(core.records.open_drains, core.cluster)
    text = one_line(reason, REASON_LIMIT)
    rows = [
        await _accept_one(core, name, opened.get(name), seconds, text, actor)
        for name in dict.fromkeys(expand(nodes, limit=NODES_LIMIT))
    ]
    await core.view.refresh()
    return rows


async def _accept_one(
    core: Core, name: str, record: DrainRecord | None, seconds: float, reason: str, actor: str
) -> DrainRow:
    made = plan(core, name, "resume", record)
    if made.outcome == "refused":
        return made
    if made.outcome == "planned" and record is None:
        record = await adopted(core, name, actor)
    codes = await asyncio.to_thread(_codes, core, name, record)
    if not codes:
        return row(core, name, "refused", "no fault is known that would lead to a drain: there is no risk to accept")
    await asyncio.to_thread(_write, core, name, codes, seconds, reason, actor)
    if made.outcome == "planned" and record is not None:
        done = await resume_now(core, record, actor, force=True)
        if done.outcome != "done":
            await asyncio.to_thread(_withdrawn, core, name, actor, "the node was not resumed")
            return done
    return row(core, name, "done", f"{', '.join(codes)}: {core.risk(name)}")


def _codes(core: Core, name: str, record: DrainRecord | None) -> tuple[str, ...]:
    """What the node was drained for, and what would drain it now."""
    findings = core.store.current_findings(core.cluster, name)
    wanted = judge_now(core, findings, core.clock()).codes
    return tuple(dict.fromkeys([*(record.codes if record else ()), *wanted]))


def _write(core: Core, name: str, codes: Sequence[str], seconds: float, reason: str, actor: str) -> None:
    now = core.clock()
    core.words.accept(name, codes, now + timedelta(seconds=seconds), reason, actor, now)
    core.words.clear(name, EVERY, reason, actor, now)
    core.solved(name, CONTESTED, f"risk accepted by {actor}")
    text = f"{', '.join(codes)}: {core.risk(name)}"
    core.audit("risk accepted", name, text, actor=actor)
    core.incident(name, ACCEPTED, text)


def _withdrawn(core: Core, name: str, actor: str, why: str) -> bool:
    done = core.words.withdraw(name, actor, core.clock())
    if done:
        core.audit("risk withdrawn", name, why, actor=actor)
        core.solved(name, ACCEPTED, why)
    return done


async def clear(core: Core, nodes: str, reason: str, actor: str) -> list[DrainRow]:
    """Let automation drain these nodes again: contests about them are settled, accepted risks end."""
    text, rows = one_line(reason, REASON_LIMIT), []
    for name in dict.fromkeys(expand(nodes, limit=NODES_LIMIT)):
        had = await asyncio.to_thread(_clear, core, name, text, actor)
        rows.append(row(core, name, "done" if had else "unchanged", had or "nothing was contested or accepted"))
    return rows


def _clear(core: Core, name: str, reason: str, actor: str) -> str:
    contested = core.words.contested(name, core.clock())
    risk = _withdrawn(core, name, actor, reason)
    core.words.clear(name, EVERY, reason, actor, core.clock())
    core.solved(name, CONTESTED, f"cleared by {actor}")
    core.audit("contest cleared", name, reason, actor=actor)
    said = [*(["contest cleared"] if contested else []), *(["risk withdrawn"] if risk else [])]
    return " and ".join(said)


async def keep_time(core: Core) -> None:
    """Read the words in force, say of risks that are over that they are, and hold the guard against the present."""
    await asyncio.to_thread(_keep_time, core)
    await core.ground.refresh()


def _keep_time(core: Core) -> None:
    for risk in core.words.load(core.clock()):
        core.audit("risk ended", risk.node, f"{risk.code}: its time is over")
    for risk in core.words.risks(core.clock()):
        core.incident(risk.node, ACCEPTED, f"{risk.code}: {why_accepted(risk)}")
    holding = {(r.node, ACCEPTED) for r in core.words.risks(core.clock())}
    core.notices.keep(lambda key, _: key[1] == ACCEPTED, holding, "its time is over")
