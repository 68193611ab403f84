"""A person who gives a node back is believed for a while; against whoever does it again and again there is no duel."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from api.controller.core import Core
from api.controller.drain_record import DrainRecord
from checks.wire import Decision

HISTORY = timedelta(days=30)
CONTESTED = "contested"
# Given back this soon after we took the node out, nobody mended anything: a tool resumes behind us and counts twice.
TOOL_SECONDS = 600.0


def believed(core: Core, node: str, decision: Decision) -> str:
    """Why the node is left to those who gave it back, empty when it is not; reads and writes the database.

    A fault that breaks every job, or a device that is lost, drains again at once; others wait for ``belief`` seconds.
    After ``contest`` foreign resumes of one fault nothing is drained for it until a person clears it.
    """
    alike = _alike(core, node, decision.codes)
    if text := _contested(core, node, decision, alike):
        core.incident(node, CONTESTED, text)
        return text
    if hard(core, decision.codes):
        return ""
    now = core.clock()
    since = now - timedelta(seconds=core.settings.belief)
    given = [r.closed_at for r in alike if r.state in ("resumed_outside", "resumed_unverified") and r.closed_at]
    back = core.view.back.get(node)
    if back is not None and alike and alike[0].state == "taken_over":
        # A person made the drain theirs, and it has ended since.
        given.append(back)
    lately = [at for at in given if at >= since]
    if not lately:
        return ""
    age = max(0.0, (now - max(lately)).total_seconds())
    text = f"resumed {age:.0f} s ago by a person, {decision.reason} persists"
    core.incident(node, "resumed_while_faulty", text)
    return text


def hard(core: Core, codes: Sequence[str]) -> bool:
    """Whether one of these codes leaves no job a chance, whatever a person believes."""
    rules = (core.policy.codes.get(code) for code in codes)
    return any(r is not None and bool(r.breaks_every_job or r.device_lost) for r in rules)


def foreign(core: Core, node: str, codes: Sequence[str]) -> list[DrainRecord]:
    """Our drains for these codes that others ended while we held the node for them, the newest first."""
    return _foreign(core, node, codes, _alike(core, node, codes))


def _foreign(core: Core, node: str, codes: Sequence[str], alike: Sequence[DrainRecord]) -> list[DrainRecord]:
    cleared = core.words.cleared(node, codes) if alike else None
    return [
        r for r in alike if r.automatic and r.closed_at and (cleared is None or r.closed_at > cleared) and _by_others(r)
    ]


def again(core: Core, node: str, codes: Sequence[str]) -> str:
    """What the reason says of foreign resumes before it, empty when there was none."""
    count = len(foreign(core, node, codes))
    return f"drained again, {count} foreign resume{'s' if count > 1 else ''}: " if count else ""


def _by_others(record: DrainRecord) -> bool:
    if record.state == "taken_over":
        return "newer drain of ours" not in record.why
    return record.state in ("resumed_outside", "resumed_unverified")


def _lasted(record: DrainRecord) -> float:
    return (record.closed_at - record.created_at).total_seconds() if record.closed_at else 0.0


def _alike(core: Core, node: str, codes: Sequence[str]) -> list[DrainRecord]:
    ended = core.records.ended_since(core.cluster, node, core.clock() - HISTORY)
    return [r for r in ended if set(r.codes) & set(codes)]


def _contested(core: Core, node: str, decision: Decision, alike: Sequence[DrainRecord]) -> str:
    """The sentence about a node that others keep giving back; once contested it stays so until a person clears it."""
    way = f"nodevet guard clear {node} ends this"
    if core.words.contested(node, core.clock()) & set(decision.codes):
        return f"{decision.reason}; not drained, contested; {way}"
    ended = _foreign(core, node, decision.codes, alike)
    quick = [r for r in ended if r.state != "resumed_unverified" and _lasted(r) < TOOL_SECONDS]
    if len(ended) >= core.settings.contest:
        why = f"resumed {len(ended)} times by others while the fault stayed, at most {core.settings.contest - 1}"
    elif len(ended) + len(quick) > core.settings.contest:
        why = f"resumed {len(quick)} times by others within {TOOL_SECONDS / 60:g} min of our drain, as a tool does"
    else:
        return ""
    core.words.contest(node, decision.codes, why, core.clock())
    core.audit("contested", node, f"{', '.join(decision.codes)}: {why}")
    return f"{decision.reason}; not drained any more: {why}; {way}"
