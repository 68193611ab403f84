"""A node that is out for one fault and gets another: the drain's codes, its way back and its reason follow, once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from functools import partial

from api.controller.automatic import checks_of, detail_of, judge_now, of_this_boot
from api.controller.core import Core
from api.controller.forgotten import write_reason
from api.controller.records import DrainRecord, Said
from checks.judge.policy import PolicyStep
from checks.wire import Decision, Finding
from slurm.ownership import OurRecord, stands
from slurm.reason import compose

log = logging.getLogger(__name__)
_STEPS: tuple[PolicyStep, ...] = ("verify", "burn-in", "person")
_STANDING = ("draining", "drained", "verifying")


async def follow(core: Core) -> None:
    """Look at every node that automation holds and that fails now."""
    if not core.settings.automation:
        return
    opened = await asyncio.to_thread(core.records.open_drains, core.cluster)
    held = {n: r for n, r in opened.items() if r.automatic and r.state in _STANDING}
    failing = await asyncio.to_thread(core.store.all_failing, core.cluster) if held else {}
    for node in sorted(held.keys() & failing.keys()):
        await core.spare(node, _one(core, held[node], failing[node]))


async def _one(core: Core, record: DrainRecord, findings: Sequence[Finding]) -> None:
    node, state = record.node, core.view.states.get(record.node)
    if state is None or not state.out_of_service or state.hands_off or core.paused(node):
        return
    seen = of_this_boot(core, node, findings)
    decision = judge_now(core, seen, core.clock(), node)
    new = tuple(c for c in decision.codes if c not in record.codes and not _alike(core, c))
    if decision.wanted != "drain" or not new:
        return
    head = max(new, key=partial(gravity, core))
    alone = judge_now(core, [f for f in seen if f.code == head], core.clock(), node)
    async with core.node_locks[node]:
        pen = await core.pen()
        changes = _changes(core, record, decision, seen, new)
        if gravity(core, head) > max(map(partial(gravity, core), record.codes), default=(False, -1)):
            changes |= _renewed(record, head, alone, _shown(core, record))
        said = Said("drain follows", f"{', '.join(new)} beside {', '.join(record.codes)}")
        change = partial(core.records.change, record, core.clock(), said=said, epoch=pen.epoch)
        record = await asyncio.to_thread(partial(change, **changes))
    log.warning("drain follows node=%s codes=%s step=%s", node, ",".join(record.codes), record.step)
    if "reason" in changes and record.open:
        await write_reason(core, record)


def gravity(core: Core, code: str) -> tuple[bool, int]:
    """What makes one code graver than another: it leaves no job a chance, or asks more of the way back."""
    rule = core.policy.codes.get(code)
    hard = rule is not None and bool(rule.breaks_every_job or rule.device_lost)
    return hard, _STEPS.index(core.way_back(code))


def _changes(
    core: Core, record: DrainRecord, decision: Decision, seen: Sequence[Finding], new: Sequence[str]
) -> dict[str, object]:
    """The graver codes first; the stricter way back; every check that must be content again."""
    codes = sorted((*record.codes, *new), key=partial(gravity, core), reverse=True)
    step = max((record.step, *map(core.way_back, new)), key=_STEPS.index)
    checks = sorted({*record.checks, *checks_of(decision, seen)})
    return {"codes": codes, "step": step, "checks": checks}


def _alike(core: Core, code: str) -> bool:
    """Whether too many nodes showed it lately for it to be this one's."""
    seen = core.correlated.get(code)
    return seen is not None and (core.clock() - seen).total_seconds() < core.guard.alike_seconds


def _shown(core: Core, record: DrainRecord) -> str:
    """The reason of ours that Slurm still shows: one that it did not take is not what the next one replaces."""
    state, at = core.view.states.get(record.node), core.view.read_at
    text = state.reason.text if state is not None and state.reason is not None else ""
    older = bool(record.reason_before) and stands(text, OurRecord(record.reason_before))
    return record.reason_before if older and at is not None and at > record.changed_at else record.reason


def _renewed(record: DrainRecord, head: str, alone: Decision, shown: str) -> Mapping[str, object]:
    """The new reason under the same token, so that one record still speaks for the node."""
    detail = (
        f"{detail_of(head, alone)}; drained for {record.codes[0]} before" if record.codes else detail_of(head, alone)
    )
    return {"reason": compose(head, detail, token=record.token), "reason_before": shown}
