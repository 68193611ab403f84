"""A kernel log that somebody kept is read in every usual form, which tells how far its lines are the kernel's."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Literal

Trust = Literal["kernel", "unmarked", "forgeable"]
TRUST: dict[Trust, str] = {
    "kernel": "each line carries its facility",
    "unmarked": "lines carry no facility: what a user wrote to /dev/kmsg stands among them",
    "forgeable": "any user can write lines of this form (logger -t kernel)",
}
TEXT_LIMIT = 2048
LINES_LIMIT = 1_000_000
_KERN = 0
# An earlier line with a later time by more than this: the machine was booted in between.
_BACKWARDS = 60.0


@dataclass(frozen=True, slots=True)
class Line:
    """One line: seconds since boot or since 1970, one or the other in a whole log; ``boot`` where the form names it."""

    seconds: float
    text: str
    facility: int | None = None
    boot: str = ""


@dataclass(frozen=True, slots=True)
class Captured:
    """A whole log of the last boot in it, oldest first; ``foreign``: lines of others; ``garbled``: of no known form."""

    form: str
    trust: Trust
    lines: tuple[Line, ...] = ()
    foreign: int = 0
    garbled: int = 0

    @property
    def end(self) -> float:
        """The time of the last line."""
        return self.lines[-1].seconds if self.lines else 0.0


Reader = Callable[[str], "Line | None"]


def parse(data: bytes) -> Captured | None:
    """The log in the form that its first lines have; None when they have none that is known."""
    text = data.decode("utf-8", "replace")
    if "__CURSOR=" in text[:4096] or "\n_TRANSPORT=" in text[:65536]:
        return _captured("journal export", "kernel", list(_export(data)), 0)
    rows = [row.removesuffix("\r") for row in text.split("\n")[:LINES_LIMIT]]
    found = next((form for row in rows[:50] if row.strip() for form in FORMS if form.read(row) is not None), None)
    if found is None:
        return None
    lines, garbled = [], 0
    for row in rows:
        if not row.strip() or row[0] in " \t":
            continue  # KEY=value of the record before it, or the rest of a message of several lines
        line = found.read(row)
        garbled += line is None
        lines += [line] if line is not None else []
    return _captured(found.name, found.trust, lines, garbled)


def _captured(form: str, trust: Trust, lines: list[Line], garbled: int) -> Captured:
    """Lines of the kernel's last boot; what others wrote is counted, and is no sign of a boot either."""
    own = [line for line in lines if line.facility in (None, _KERN)]
    start, last = 0, None
    for number, line in enumerate(own):
        if last is not None and (line.boot != last.boot or line.seconds < last.seconds - _BACKWARDS):
            start = number
        last = line
    return Captured(form, trust, tuple(own[start:]), len(lines) - len(own), garbled)


# -- forms of one line each


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write a line; ``read`` gives None for a line of another form."""

    name: str
    trust: Trust
    read: Reader


_RECORD = re.compile(r"(\d{1,6}),\d{1,20},(\d{1,20}),[^;\n]{0,64};(.*)")
# Kernels with PRINTK_CALLER say which task or processor wrote it: [    T1], [  C12].
_CALLER = r"(?: ?\[ *[TC]\d{1,10}\])?"
_RAW = re.compile(r"<(\d{1,6})>\[ *(\d{1,12}\.\d{1,9})\]" + _CALLER + " (.*)")
_HUMAN = re.compile(r"\[ *(\d{1,12}\.\d{1,9})\]" + _CALLER + " (.*)")
_CLOCK = re.compile(r"\[(\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})\]" + _CALLER + " (.*)")
_MONOTONIC = re.compile(r"\[ *(\d{1,12}\.\d{1,9})\] \S{1,255} (?:(kernel)|[\w./-]{1,64}\[\d{1,10}\]): ?(.*)")
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[,.]\d{1,9}[+-]\d\d:?\d\d) (.*)")
_DECODED = re.compile(r"(\w{1,8}) *:(\w{1,7}) *: (.*)")
_FULL = re.compile(
    r"\w{3} (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d{1,9})? [\w+:-]{1,8} (\S{1,255}) "
    r"([\w./-]{1,64})(?:\[\d{1,10}\])?: ?(.*)"
)
_SYSLOG = re.compile(
    r"(\w{3} [ \d]\d \d\d:\d\d:\d\d)(?:\.\d{1,9})? (\S{1,255}) ([\w./-]{1,64})(?:\[\d{1,10}\])?: ?(.*)"
)
_SYSLOG_ISO = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[+-]\d\d:?\d\d|Z)) (\S{1,255}) "
    r"([\w./-]{1,64})(?:\[\d{1,10}\])?: ?(.*)"
)
_FACILITIES = {"kern": 0, "user": 1, "mail": 2, "daemon": 3, "auth": 4, "syslog": 5}
_STAMP = re.compile(r"^\[ *\d{1,12}\.\d{1,9}\]" + _CALLER + " ")
_OTHERS = 1


def _record(row: str) -> Line | None:
    match = _RECORD.fullmatch(row)
    return Line(int(match[2]) / 1e6, match[3][:TEXT_LIMIT], int(match[1]) >> 3) if match else None


def _raw(row: str) -> Line | None:
    match = _RAW.fullmatch(row)
    return Line(float(match[2]), match[3][:TEXT_LIMIT], int(match[1]) >> 3) if match else None


def _human(row: str) -> Line | None:
    match = _HUMAN.fullmatch(row)
    return Line(float(match[1]), match[2][:TEXT_LIMIT]) if match else None


def _clock(row: str) -> Line | None:
    match = _CLOCK.fullmatch(row)
    when = _time(match[1], "%a %b %d %H:%M:%S %Y") if match else None
    return Line(when, match[2][:TEXT_LIMIT]) if match and when is not None else None


def _iso(row: str) -> Line | None:
    match = _ISO.fullmatch(row)
    when = _iso_time(match[1]) if match else None
    # A line of syslog has a host's name next and so looks the same: its tag tells.
    if match is None or when is None or _SYSLOG_ISO.fullmatch(row):
        return None
    return Line(when, match[2][:TEXT_LIMIT])


def _decoded(row: str) -> Line | None:
    """``dmesg -x`` before any of the other times."""
    match = _DECODED.fullmatch(row)
    if match is None:
        return None
    line = next((found for read in (_human, _clock, _iso) if (found := read(match[3]))), None)
    return line and Line(line.seconds, line.text, _FACILITIES.get(match[1], _OTHERS))


def _syslog(row: str) -> Line | None:
    """Syslog keeps no year; the order of the lines is what counts."""
    match = _SYSLOG.fullmatch(row)
    when = _time(f"2024 {match[1]}", "%Y %b %d %H:%M:%S") if match else None
    return _of_syslog(when, match[3], match[4]) if match and when is not None else None


def _full(row: str) -> Line | None:
    """``journalctl -o short-full``; the zone is left aside, the order of the lines is what counts."""
    match = _FULL.fullmatch(row)
    when = _time(match[1], "%Y-%m-%d %H:%M:%S") if match else None
    return _of_syslog(when, match[3], match[4]) if match and when is not None else None


def _monotonic(row: str) -> Line | None:
    """``journalctl -o short-monotonic``: like dmesg, with host and program in between."""
    match = _MONOTONIC.fullmatch(row)
    return _of_syslog(float(match[1]), match[2] or "", match[3]) if match else None


def _syslog_iso(row: str) -> Line | None:
    match = _SYSLOG_ISO.fullmatch(row)
    when = _iso_time(match[1]) if match else None
    return _of_syslog(when, match[3], match[4]) if match and when is not None else None


def _of_syslog(when: float, tag: str, text: str) -> Line:
    return Line(when, _STAMP.sub("", text)[:TEXT_LIMIT], _KERN if tag == "kernel" else _OTHERS)


def _time(text: str, pattern: str) -> float | None:
    try:
        return datetime.strptime(text, pattern).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None


def _iso_time(text: str) -> float | None:
    """ISO 8601 as dmesg and syslog write it; Python 3.10 wants six digits, a point and a colon."""
    plain = re.sub(r"([+-]\d\d):?(\d\d)$", r"\1:\2", text.replace(",", ".").replace("Z", "+00:00"))
    plain = re.sub(r"\.(\d{1,9})", lambda m: "." + m[1][:6].ljust(6, "0"), plain)
    try:
        return datetime.fromisoformat(plain).timestamp()
    except ValueError:
        return None


def _journal(row: str) -> Line | None:
    """One entry of ``journalctl -o json``."""
    if not row.startswith("{"):
        return None
    try:
        entry = json.loads(row)
    except (ValueError, RecursionError):
        return None
    return _of_journal(entry) if isinstance(entry, dict) else None


def _of_journal(entry: dict[str, object]) -> Line | None:
    """The transport is the journal's own word, which no writer can set."""
    text, when = entry.get("MESSAGE"), entry.get("__REALTIME_TIMESTAMP")
    if isinstance(text, list):  # bytes that are no text
        text = bytes(b for b in text if isinstance(b, int) and 0 <= b < 256).decode("utf-8", "replace")
    if not isinstance(text, str) or not isinstance(when, str) or not when.isdecimal() or len(when) > 20:
        return None
    facility = _KERN if entry.get("_TRANSPORT") == "kernel" else _OTHERS
    named = entry.get("SYSLOG_FACILITY")
    if facility == _KERN and isinstance(named, str) and named.isdecimal():
        facility = int(named[:6])
    return Line(int(when) / 1e6, text[:TEXT_LIMIT], facility, str(entry.get("_BOOT_ID", ""))[:64])


def _export(data: bytes) -> Iterator[Line]:
    """Entries of ``journalctl -o export``: KEY=value, or KEY, a length of eight bytes, and so many bytes."""
    entry: dict[str, object] = {}
    at = 0
    while at < len(data):
        end = data.find(b"\n", at)
        row = data[at : end if end >= 0 else len(data)]
        at = (end if end >= 0 else len(data)) + 1
        if not row:
            if line := _of_journal(entry):
                yield line
            entry = {}
            continue
        key, sign, value = row.partition(b"=")
        if not sign:
            size = int.from_bytes(data[at : at + 8], "little")
            value, at = data[at + 8 : at + 8 + size], at + 8 + size + 1
        entry[key.decode("ascii", "replace")] = value.decode("utf-8", "replace")
    if line := _of_journal(entry):
        yield line


FORMS = (
    Form("/dev/kmsg records", "kernel", _record),
    Form("dmesg --raw", "kernel", _raw),
    Form("dmesg --decode", "kernel", _decoded),
    Form("journal, monotonic times", "forgeable", _monotonic),
    Form("dmesg", "unmarked", _human),
    Form("dmesg --ctime", "unmarked", _clock),
    Form("journal json", "kernel", _journal),
    Form("syslog", "forgeable", _syslog),
    Form("journal, full times", "forgeable", _full),
    Form("syslog, ISO times", "forgeable", _syslog_iso),
    Form("dmesg --time-format iso", "unmarked", _iso),
)
