"""What an error of an NVLink5 port (Xid 144 to 150) asks for follows from its unit, status and sub-code."""

from __future__ import annotations

from collections.abc import Iterable

from checks.judge.policy import NvlinkRule
from checks.log.xid import Xid

_ORDER = ("ignore", "state", "reset", "quiet")
"""Of several entries that fit, the gravest counts, and an exception by sub-code over all."""


def step(xid: Xid, rules: Iterable[NvlinkRule]) -> str:
    """ "reset", "state", "ignore" or "quiet" by the policy's table ``nvlink5``; empty where it has no entry."""
    fitting = [rule.step for rule in rules if rule.step and not rule.off and _fits(rule, xid)]
    return max(fitting, key=_ORDER.index, default="")


def grave(xid: Xid, wanted: str) -> bool:
    """Whether it is a fault: the driver's own word counts, and where it says none the table's ``wanted`` step."""
    if wanted == "quiet":
        return False
    return xid.fatal if xid.fatal is not None else wanted == "reset"


def _fits(rule: NvlinkRule, xid: Xid) -> bool:
    if rule.xid != xid.number or (rule.units and not _is_of(xid.unit, rule.units)):
        return False
    if rule.subcodes is not None and xid.subcode not in rule.subcodes:
        return False
    if rule.values is not None and xid.status not in rule.values:
        return False
    return not rule.bits or bool((xid.status or 0) & rule.bits)


def _is_of(unit: str, names: Iterable[str]) -> bool:
    """Whether it is one of these units, which some drivers write with the one above it: TLW_RX/TLW_RX_PIPE0."""
    parts = {part.casefold() for part in (unit, *unit.split("/")) if part}
    return any(name.casefold() in parts for name in names)
