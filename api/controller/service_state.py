"""Where a node stands on its way out of service and back is one of nine words, derived from what is known of it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import datetime

from api.controller.drain_record import DrainRecord
from api.ports import PauseView
from api.service_port import STATES, ServiceState
from slurm.reason import Owner, owner_of
from slurm.state import NodeState

# Where a node may go from each state, as docs/drains.md tells it. The order says which way is taken for granted where
# more than one step happened between two looks.
MOVES: dict[ServiceState, tuple[ServiceState, ...]] = {
    "in_service": ("suspect", "draining", "held", "repairing", "verifying", "retired"),
    "suspect": ("draining", "in_service", "probation", "held", "repairing", "verifying", "retired"),
    "draining": ("drained", "in_service", "held", "repairing", "retired"),
    "drained": ("verifying", "draining", "in_service", "held", "repairing", "retired"),
    "repairing": ("verifying", "drained", "held", "retired"),
    "verifying": ("drained", "probation", "in_service", "suspect", "draining", "held", "repairing", "retired"),
    "probation": ("in_service", "suspect", "draining", "held", "repairing", "verifying", "retired"),
    "held": ("drained", "draining", "verifying", "in_service", "repairing", "retired"),
    "retired": ("in_service", "held"),
}
assert MOVES.keys() == set(STATES)
SERVING: tuple[ServiceState, ...] = ("in_service", "suspect", "probation")
"""Where jobs may start."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What is known of one node now; texts are empty where there is nothing to say.

    ``suspect``: the fault that nothing follows from yet, and why. ``look``: why a whole look at the node is owed.
    ``gone``: Slurm has known no such node for as long as it takes to believe it.
    """

    state: NodeState | None
    record: DrainRecord | None = None
    pause: PauseView | None = None
    suspect: str = ""
    look: str = ""
    probation_until: datetime | None = None
    gone: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """The state and the sentence that says how we know; ``over``: what a node that served came by."""

    state: ServiceState
    why: str
    over: ServiceState | None = None


def standing(seen: Seen) -> Standing | None:
    """Where the node stands; None: nothing is known that could change what was known before."""
    state = seen.state
    if state is None:
        return Standing("retired", seen.gone) if seen.gone else None
    if seen.pause is not None and seen.pause.ticket:
        return Standing("repairing", f"ticket {seen.pause.ticket}, {seen.pause.actor}: {seen.pause.reason}")
    if seen.record is not None and seen.record.state == "testing":
        return Standing("verifying", "burn-in as a job in a reservation of ours", over="drained")
    if held := _held(seen, state):
        return Standing("held", held)
    return _out(seen, state) if state.out_of_service else _serving(seen)


def _serving(seen: Seen) -> Standing:
    if seen.look:
        return Standing("verifying", seen.look)
    if seen.suspect:
        return Standing("suspect", seen.suspect)
    if seen.probation_until is not None:
        return Standing("probation", f"watched until {seen.probation_until:%Y-%m-%d %H:%M} UTC")
    return Standing("in_service", "")


def _held(seen: Seen, state: NodeState) -> str:
    """Whose hand is on the node, so that only that hand lets it go; a verification a person asked for goes on."""
    if seen.pause is not None:
        return f"paused by {seen.pause.actor}: {seen.pause.reason}"
    if state.hands_off:
        return state.hands_off
    owner, reason = owner_of(state), state.active_reason
    text = reason.text if reason else ""
    # A node that is down and has no reason was taken out by nobody.
    if owner is Owner.OTHER and text:
        return f"drained by {reason.user if reason and reason.user else 'somebody else'}: {text}"
    if owner is Owner.PERSON_THROUGH_US:
        asked = seen.record is not None and seen.record.state == "verifying"
        return "" if asked else f"drained by {seen.record.actor if seen.record else 'a person'}: {text}"
    return ""


def _out(seen: Seen, state: NodeState) -> Standing:
    reason = state.active_reason
    text = reason.text if reason else str(state)
    if seen.record is not None and seen.record.state == "verifying":
        return Standing("verifying", f"{text}; {seen.record.rounds} clean looks so far", over="drained")
    if state.running_jobs:
        return Standing("draining", text)
    return Standing("drained", text)


def way(old: ServiceState, new: ServiceState, over: ServiceState | None = None) -> tuple[ServiceState, ...]:
    """The moves from one state to another, in the order in which they must have happened; the last one is ``new``.

    ``over`` was passed as well where the node served: one on trial was drained, however short, another looked at
    while it serves was not.
    """
    if old == new:
        return ()
    if over is not None and old in SERVING:
        return way(old, over) + way(over, new)
    came: dict[ServiceState, ServiceState] = {}
    ahead: deque[ServiceState] = deque([old])
    while ahead:
        here = ahead.popleft()
        for there in MOVES[here]:
            if there not in came and there != old:
                came[there] = here
                ahead.append(there)
    steps = [new]
    while (before := came[steps[0]]) != old:
        steps.insert(0, before)
    return tuple(steps)
