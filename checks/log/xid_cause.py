"""Of several Xids that belong together one is the cause, and the others are its victims."""

from __future__ import annotations

from collections.abc import Sequence

from checks.judge.policy import Policy, XidRule
from checks.log.nvlink5 import grave, step
from checks.log.xid import NVLINK5, Xid
from checks.log.xid_events import Event, Events

AFTER, BEFORE = 60.0, 10.0
"""A victim is logged at most so long after its cause, or so long before it: the driver notices some late."""
_NOTHING = XidRule()


def causes(events: Events, policy: Policy) -> list[Event]:
    """The standing errors that others come of; of an NVLink error only where it is a fault."""
    return [e for e in events.standing.values() if _primary(e.xid, policy)]


def cause_of(event: Event, primary: Sequence[Event], policy: Policy) -> Xid | None:
    """The primary error that ``event`` comes of; None when it stands for itself."""
    scope = policy.xid.get(str(event.xid.number), _NOTHING).follows
    for cause in primary if scope else ():
        near = event.first - AFTER <= cause.stamp and cause.first <= event.stamp + BEFORE
        here = scope == "node" or cause.xid.bdf == event.xid.bdf
        if near and here and cause.xid.number != event.xid.number and cause.fresh == event.fresh:
            return cause.xid
    return None


def mark_victims(events: Events, primary: Sequence[Event], policy: Policy) -> None:
    """What came of another error is no program's error of its own and does not count among them."""
    for (bdf, number, part), seen in events.sightings.items() if primary else ():
        for sighting in seen:
            if not sighting.victim and events.now - sighting.last <= AFTER + BEFORE:
                event = Event(Xid(bdf, number, part=part), 0.0, True, first=sighting.stamp, stamp=sighting.last)
                sighting.victim = cause_of(event, primary, policy) is not None


def _primary(xid: Xid, policy: Policy) -> bool:
    if not policy.xid.get(str(xid.number), _NOTHING).primary:
        return False
    return xid.number not in NVLINK5 or grave(xid, step(xid, policy.nvlink5.values()))
