"""Every known form of an NVIDIA Xid line is read as an event, and no text makes the reader fail."""

from __future__ import annotations

import re
from dataclasses import dataclass

from checks.gpu.values import normal_bdf

LOST = 79
RECOVERY = 154
VICTIM = 45
NVLINK5 = range(144, 151)

_LINE = re.compile(r"NVRM: Xid \((?P<where>.{1,64}?)\)?: (?P<number>\d{1,6})\b(?P<rest>.*)", re.DOTALL)
_FALLEN = re.compile(
    r"NVRM: (?:The )?(?:NVIDIA )?GPU (?:at )?(?:PCI:)?(?P<where>[0-9A-Fa-f:.]{4,20})(?=[ \\])"
    r".{0,120}?fallen off the bus"
)
"""The kernel writes the line feeds inside one message as the four characters of \\x0a."""
_PID = re.compile(r",? ?pid='?(\d{1,10})\b")
_WHO = re.compile(r"pid='?(?:\d{1,10}|<unknown>)'?, (?:name=[^,]{0,64}, ?)?")
_LINK = re.compile(
    r"(?P<unit>[A-Z][A-Z0-9_/ ]{1,40}?) (?P<severity>Fatal|Nonfatal|Non-fatal) XC-?\d+ i-?\d+ Link (?P<link>-?\d{1,3})"
    r"(?: \((?P<words>0x[0-9a-fA-F]{1,8}(?: 0x[0-9a-fA-F]{1,8}){0,7}))?"
)
_SEVERITY = re.compile(r"\b(?:(?P<mild>non-?fatal)|fatal)\b", re.IGNORECASE)
_ACTION = re.compile(r"recovery action changed from 0x[0-9a-fA-F]+ \(.{0,60}?\) to 0x(?P<action>[0-9a-fA-F]{1,4})\b")
_CAUSE = re.compile(r"caused by previous Xid (\d{1,6})\b")
_UNIT_13 = re.compile(r"\(GPC (\d{1,3}), TPC (\d{1,3})")
_DRIVER_LOADED = re.compile(r"NVRM: loading NVIDIA ")
_QUIET_LINK_REASONS = (0x26, 0x28)


@dataclass(frozen=True, slots=True)
class Xid:
    """One event; ``text`` is the driver's, without process id and name.

    ``part`` is the GPC and TPC an Xid 13 names, ``cause`` the earlier Xid a victim names.
    ``fatal`` is set for the NVLink5 numbers 144 to 150, ``action`` for 154.
    """

    bdf: str
    number: int
    text: str = ""
    pid: int | None = None
    part: str = ""
    cause: int | None = None
    fatal: bool | None = None
    action: int | None = None
    link: int | None = None
    subcode: int | None = None


def driver_loaded(text: str) -> bool:
    """Whether the line says that the driver was just loaded: what stood before it is over."""
    return _DRIVER_LOADED.match(text) is not None


def parse_xid(text: str) -> Xid | None:
    """The event of one kernel line, None for any other line.

    The line must begin as the driver writes it and name a PCI id. A process chooses its own name, so details are read
    from the last place where they fit: behind the name only the driver writes.
    """
    fallen = _FALLEN.match(text)
    if fallen:
        bdf = normal_bdf(fallen.group("where").rstrip(":"))
        return Xid(bdf, LOST, "GPU has fallen off the bus") if bdf else None
    line = _LINE.match(text)
    bdf = normal_bdf(line.group("where").partition(" ")[0].removeprefix("PCI:")) if line else ""
    if line is None or not bdf:
        return None
    rest = line.group("rest")
    number = int(line.group("number"))
    pid = _PID.match(rest)
    link = _last(_LINK, rest) if number in NVLINK5 else None
    told = _WHO.sub("", rest.lstrip(", "), count=1)
    action = _last(_ACTION, rest) if number == RECOVERY else None
    cause = _last(_CAUSE, rest) if number == VICTIM else None
    part = _last(_UNIT_13, rest)
    return Xid(
        bdf=bdf,
        number=number,
        text=told[:200],
        pid=int(pid.group(1)) if pid else None,
        part=f"GPC {part.group(1)}, TPC {part.group(2)}" if part and number == 13 else "",
        cause=int(cause.group(1)) if cause else None,
        fatal=_fatal(number, link, told),
        action=int(action.group("action"), 16) if action else None,
        link=int(link.group("link")) if link else None,
        subcode=_subcode(link),
    )


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = None
    for match in pattern.finditer(text):
        found = match
    return found


def _subcode(link: re.Match[str] | None) -> int | None:
    """Bits 20 to 27 of the first word: why a link went down (149)."""
    words = link.group("words") if link else None
    return int(words.split()[0], 16) >> 20 & 0xFF if words else None


def _fatal(number: int, link: re.Match[str] | None, told: str) -> bool | None:
    """The driver's own word; two link-down reasons of 149 are no fault of this GPU although it says fatal."""
    if number not in NVLINK5:
        return None
    if number == 149 and link and "LINK" in link.group("unit") and _subcode(link) in _QUIET_LINK_REASONS:
        return False
    word = _last(_SEVERITY, link.group("severity") if link else told)
    return None if word is None else word.group("mild") is None
