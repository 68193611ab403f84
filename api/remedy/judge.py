"""Which remedy comes next for what fails now, and why none may begin: pure, so that every case of it can be tried."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from api.controller.drain_record import DrainRecord
from api.remedy.record import TRIED, RemedyRecord
from api.remedy.settings import REBOOT, RESET, RemedySettings
from checks.judge.policy import Policy
from checks.wire import Finding
from slurm.reason import Owner, owner_of, parse
from slurm.state import NodeState

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
BUSY_TRIES = 3
REFUSED_WAIT = timedelta(hours=1)
PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be tried, for which codes, on which GPUs (none: all, or it is not about GPUs)."""

    action: str
    codes: tuple[str, ...]
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Nothing:
    """Why nothing is to be tried; ``person``: nothing is left but a person."""

    why: str
    person: bool = False


def choose(
    policy: Policy, failing: Sequence[Finding], past: Sequence[RemedyRecord], settings: RemedySettings
) -> Wish | Nothing:
    """The next step for all that fails: never one that was tried for it already, never a milder one after it.

    ``past``: what ended on this node within ``again_within``. One code without a remedy is a person's: what helps the
    others would not give the node back.
    """
    if not failing:
        return Nothing("the present check is clean")
    nexts: dict[str, str] = {}
    for code in sorted({f.code for f in failing}):
        found = next(f for f in failing if f.code == code)
        ladder = policy.rule(code, found.status, found.blame).remedy or ()
        if not ladder:
            return Nothing(f"no remedy for {code}: a person looks at it", person=True)
        left = ladder[_tried(ladder, code, past) :]
        if not left:
            return Nothing(f"{' and '.join(ladder)} did not cure {code}: a person looks at it", person=True)
        nexts[code] = left[0]
    action = max(nexts.values(), key=lambda a: (a == REBOOT, a != RESET))
    return Wish(action, tuple(nexts), _gpus(failing, settings) if action == RESET else ())


def _tried(ladder: Sequence[str], code: str, past: Sequence[RemedyRecord]) -> int:
    """How many steps of the ladder are behind us."""
    mine = [r for r in past if code in r.codes]
    behind = [i for i, action in enumerate(ladder) if _spent(action, mine)]
    return max(behind) + 1 if behind else 0


def _spent(action: str, past: Sequence[RemedyRecord]) -> bool:
    own = [r for r in past if r.action == action]
    return any(r.state in TRIED for r in own) or sum(r.state == "busy" for r in own) >= BUSY_TRIES


def _gpus(failing: Sequence[Finding], settings: RemedySettings) -> tuple[str, ...]:
    """The GPUs by PCI id; all of the node (none named) where one is not told by it, or the board needs it."""
    targets = tuple(sorted({f.target for f in failing}))
    if settings.reset_gpu.scope == "all" or not all(PCI.fullmatch(t) for t in targets):
        return ()
    return targets


def limited(
    settings: RemedySettings, node: str, wish: Wish, now: datetime, seen: Sequence[RemedyRecord], *, automatic: bool
) -> str:
    """Why no remedy may begin on the node now; a person is bound by what is under way, not by what has been."""
    begun = [r for r in seen if r.state != "dry_run"]
    if (count := sum(r.open for r in begun)) >= settings.at_once:
        return f"{count} remedies are under way, at most {settings.at_once} at once"
    if not automatic:
        return ""
    ours = [r for r in begun if r.automatic and r.state not in ("cancelled", "expired")]
    day = [r for r in ours if r.node == node and now - r.created_at < DAY]
    hour = [r for r in ours if now - r.created_at < HOUR]
    code = [r for r in hour if set(r.codes) & set(wish.codes)]
    for count, limit, words in (
        (len(day), settings.per_node_per_day, "on this node within a day"),
        (len(hour), settings.per_hour, "within an hour"),
        (len(code), settings.per_code_per_hour, f"for {', '.join(wish.codes)} within an hour"),
    ):
        if count >= limit:
            return f"{count} remedies {words}, at most {limit}"
    return ""


def waits(settings: RemedySettings, action: str, now: datetime, past: Sequence[RemedyRecord]) -> str:
    """Why an action that met a holder, or was refused by the node, is not asked for again yet."""
    for state, pause in (("busy", timedelta(seconds=settings.busy_wait)), ("refused", REFUSED_WAIT)):
        last = max((r.changed_at for r in past if r.action == action and r.state == state), default=None)
        if last is not None and now - last < pause:
            return f"{action} was {state} at {last:%H:%M} UTC, tried again after {pause.total_seconds():g} s"
    return ""


def elsewhere(settings: RemedySettings, state: NodeState, now: datetime) -> str:
    """Why automation leaves this node alone at this time."""
    if settings.partitions and not set(settings.partitions) & set(state.partitions):
        return f"none of its partitions is in {', '.join(settings.partitions)}"
    return "quiet hours" if settings.quiet(now) else ""


def protected(state: NodeState | None, record: DrainRecord | None, *, automatic: bool) -> str:
    """Why nothing may disturb this node: it is not wholly ours and empty. Empty text: it may be disturbed."""
    if state is None:
        return "slurm knows no such node"
    if state.hands_off:
        return f"hands off: {state.hands_off}"
    if not state.drained:
        return f"state {state}: only a node that is drained to the end may be disturbed"
    owner = owner_of(state)
    ours = (Owner.OURS_AUTOMATIC,) if automatic else (Owner.OURS_AUTOMATIC, Owner.PERSON_THROUGH_US)
    if owner not in ours:
        return f"it is drained by {owner.value if owner else 'nobody'}, not by us"
    reason = parse(state.reason.text) if state.reason else None
    if record is None or reason is None or reason.token != record.token:
        return "its reason is not that of a drain on our record"
    if automatic and not record.automatic:
        return "a person drained it"
    if record.state in ("testing", "resuming"):
        return f"it is on its way back: {record.state}"
    return ""
