"""Every known form of an NVIDIA Xid line is read as an event, and no text makes the reader fail."""

from __future__ import annotations

import re
from dataclasses import dataclass

from checks.gpu.values import normal_bdf

LOST = 79
RECOVERY = 154
VICTIM = 45
NVLINK5 = range(144, 151)

_LINE = re.compile(r"NVRM: +Xid \((?P<where>.{1,64}?)\)? ?: (?P<number>\d{1,6})\b(?P<rest>.*)", re.DOTALL)
_FALLEN = re.compile(
    r"NVRM: (?:The )?(?:NVIDIA )?GPU (?:at )?(?:PCI:)?(?P<where>[0-9A-Fa-f:.]{4,20})(?=[ \\])"
    r".{0,120}?fallen off the bus"
)
"""The kernel writes the line feeds inside one message as the four characters of \\x0a."""
_PID = re.compile(r",? ?pid='?(\d{1,10})\b")
_WHO = re.compile(r"pid='?(?:\d{1,10}|<unknown>)'?, (?:name=[^,]{0,64}, ?)?")
_LINK = re.compile(
    r"(?P<unit>[A-Z][A-Z0-9_/]{1,40}(?: (?!Fatal|Non)[A-Z][a-z]{2,12})?)\s{1,8}"
    r"(?:(?P<severity>(?:Non[-_ ]?)?Fatal)\s{1,8})?XC ?-?\d+ i ?-?\d+ Link (?P<link>-?\d{1,3})"
    r"(?: [(\[](?P<words>0x[0-9a-fA-F]{1,8}(?:[ ,]{1,2}0x[0-9a-fA-F]{1,8}){0,7}))?",
    re.IGNORECASE,
)
"""Drivers before R575 write "XC 0 i 0" and "[0x...]", those since then "XC0 i0" and "(0x...)", four words or six."""
_SEVERITY = re.compile(r"(?<![A-Za-z])(?:(?P<mild>non[-_ ]?fatal)|fatal)\b", re.IGNORECASE)
_ACTION = re.compile(
    r"recovery action changed from (?:(?:0x[0-9a-fA-F]+|\d{1,4}) )?\(?.{0,60}?\)? to "
    r"(?:(?P<action>0x[0-9a-fA-F]{1,4}|\d{1,4})\b)?[ (]{0,2}(?P<words>[A-Za-z0-9 ]{0,40})"
)
_CAUSE = re.compile(r"caused by previous Xid (\d{1,6})\b")
_UNIT_13 = re.compile(r"\(GPC (\d{1,3}), TPC (\d{1,3})")
_NAMES_A_GPU = re.compile(r"NVRM: (?:The )?(?:NVIDIA )?GPU (?:at )?(?:PCI:)?(?P<where>[0-9A-Fa-f:.]{4,20})\s*$")
_LOST_TOO = re.compile(r"NVRM: .{0,60}fallen off the bus")
_HALF = re.compile(r"NVRM: +Xid \(.{1,64}?\)? ?:?\s*$")
_DRIVER_LOADED = re.compile(r"NVRM: loading NVIDIA ")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_WORDS = {
    "none": 0,
    "gpu reset required": 1,
    "gpu reset": 1,
    "node reboot required": 2,
    "node reboot": 2,
    "os reboot": 2,
    "drain p2p": 3,
    "drain and reset": 4,
}
UNKNOWN_ACTION = -1
"""A recovery action of which neither number nor words are known."""


@dataclass(frozen=True, slots=True)
class Xid:
    """One event; ``text`` is the driver's, without process id and name.

    ``part`` is the GPC and TPC an Xid 13 names, ``cause`` the earlier Xid a victim names, ``action`` what 154 asks
    for. Of the NVLink5 numbers 144 to 150: the ``unit`` that reports, the error ``status``, the ``subcode`` and
    whether the driver calls it ``fatal``.
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
    unit: str = ""
    status: int | None = None


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
    words = [int(word, 16) for word in _HEX.findall(link.group("words") or "")] if link else []
    told = _WHO.sub("", rest.lstrip(", "), count=1)
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
        action=_action(rest) if number == RECOVERY else None,
        link=int(link.group("link")) if link else None,
        subcode=words[0] >> 20 & 0xFF if words else None,
        unit=link.group("unit") if link else "",
        status=words[1] if len(words) > 1 else None,
    )


def joined(before: str, text: str) -> str:
    """``text`` with the beginning of its message before it, where a wrapped message came as records of its own."""
    if _NAMES_A_GPU.match(before) and _LOST_TOO.match(text):
        return f"{before.rstrip()} {text}"
    if _HALF.match(before) and text.startswith("NVRM: "):
        return f"{before.rstrip().removesuffix(':')}: {text.removeprefix('NVRM: ').lstrip()}"
    return text


def begins(text: str) -> bool:
    """Whether the line is the beginning of a message whose rest may come in the next records."""
    return bool(_NAMES_A_GPU.match(text) or _HALF.match(text))


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    found = None
    for match in pattern.finditer(text):
        found = match
    return found


def _action(rest: str) -> int | None:
    """The action an Xid 154 names: its number, checked by its words where those are known.

    Drivers have written three texts for one number, so the number counts; the words alone count where there is none,
    and where they contradict a "none" the action is unknown.
    """
    found = _last(_ACTION, rest)
    if found is None:
        return None
    said = _WORDS.get(found.group("words").strip().lower())
    if not found.group("action"):
        return said
    number = int(found.group("action"), 16 if "x" in found.group("action") else 10)
    return UNKNOWN_ACTION if number == 0 and said else number


def _fatal(number: int, link: re.Match[str] | None, told: str) -> bool | None:
    """The driver's own word, None where it does not say."""
    if number not in NVLINK5:
        return None
    word = _last(_SEVERITY, (link.group("severity") or "") if link else told)
    return None if word is None else word.group("mild") is None
