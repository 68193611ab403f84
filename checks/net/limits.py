"""A counter that grew beyond what a policy's table bears is told with the table's words, status and blame."""

from __future__ import annotations

import msgspec

from checks.declare import Code
from checks.growth import Grown
from checks.judge.policy import CounterRule
from checks.wire import Finding, Scalar

HOUR = 3600.0
"""Within which the limit of a rule holds that names no time of its own, in seconds."""


def beyond(made: Code, target: str, counter: str, rule: CounterRule, grown: Grown, **more: Scalar) -> Finding | None:
    """The finding with ``made`` where it grew beyond the rule's limit; ``more`` becomes evidence too."""
    within, limit = rule.within or HOUR, rule.limit or 0
    if not grown.beyond(limit, within):
        return None
    known: dict[str, Scalar] = {"growth": grown.count, "seconds": grown.seconds, "limit": limit, "within": within}
    found = made(target, means=rule.means or counter, counter=counter, **known, **more)
    return msgspec.structs.replace(found, status=rule.status or found.status, blame=rule.blame or found.blame)
