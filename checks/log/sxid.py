"""Every line in which the driver reports an error of an NVSwitch (SXid) is read and finds its entry of the table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from checks.gpu.values import normal_bdf
from checks.judge.policy import KernelRule, SxidRule

_LINE = re.compile(
    r"nvidia-nvswitch\d{1,3}: SXid \((?:PCI:)?(?P<where>[0-9A-Fa-f:.]{4,20})\): (?P<number>\d{4,6})(?P<rest>.*)"
)
_WORD = re.compile(r", (?P<word>Non-?fatal|Fatal)\b", re.IGNORECASE)
# What belongs to the line before: "Severity 0 Engine instance 46", "Data {0x00000000, ...}".
_MORE = re.compile(r", (?:Severity \d|Data \{)")
_FIELDS = ("code", "means", "status", "blame", "at_least", "within", "hold", "judge", "off")


@dataclass(frozen=True, slots=True)
class Sxid:
    """One error of one NVSwitch; ``word`` is "fatal", "nonfatal" or "unsaid", the driver's own."""

    bdf: str
    number: str
    word: str


def parse_sxid(text: str) -> Sxid | None:
    """The error of one kernel line, None for any other line and for one that only says more of the error before it."""
    line = _LINE.match(text)
    bdf = normal_bdf(line.group("where")) if line else ""
    if line is None or not bdf or _MORE.match(line.group("rest")):
        return None
    word = _WORD.match(line.group("rest"))
    said = word.group("word").lower().replace("-", "") if word else "unsaid"
    return Sxid(bdf, line.group("number"), said)


def kind_of(sxid: Sxid, table: Mapping[str, SxidRule]) -> str:
    """Which entry of the table judges it: that of its kind, or its own where the number has values of its own."""
    own = table.get(sxid.number)
    kind = own.kind if own is not None and own.kind in table else sxid.word
    return f"sxid_{sxid.number}_{kind}" if own is not None and _special(own) else f"sxid_{kind}"


def ended_by(sxid: Sxid, table: Mapping[str, SxidRule]) -> str:
    """The kind that this number takes back, empty for none."""
    own = table.get(sxid.number)
    if own is None or not own.ends:
        return ""
    return kind_of(Sxid(sxid.bdf, own.ends, sxid.word), table)


def named(sxid: Sxid, table: Mapping[str, SxidRule]) -> str:
    """Number and name, in our words."""
    own = table.get(sxid.number)
    return f"{sxid.number}, {own.name}" if own is not None and own.name else sxid.number


def kernel_rules(table: Mapping[str, SxidRule]) -> dict[str, KernelRule]:
    """The table as rules of the kind that the other lines of the kernel's log have, by what kind_of() says."""
    kinds = {name: rule for name, rule in table.items() if not name.isdecimal()}
    made = {f"sxid_{name}": _as_kernel(rule) for name, rule in kinds.items()}
    for number, own in table.items():
        if number.isdecimal() and _special(own):
            for name, rule in kinds.items():
                made[f"sxid_{number}_{name}"] = _as_kernel(rule, own)
    return made


def _special(rule: SxidRule) -> bool:
    return any(getattr(rule, field) is not None for field in _FIELDS)


def _as_kernel(*rules: SxidRule) -> KernelRule:
    """The later of the rules go over the earlier."""
    given = {f: getattr(r, f) for r in rules for f in _FIELDS if getattr(r, f) is not None}
    return KernelRule(**given)
