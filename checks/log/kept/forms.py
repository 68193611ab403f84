"""A kernel log that somebody kept is read in every usual form, which tells how far its lines are the kernel's."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone

from checks.log.kept.journal import structured
from checks.log.kept.line import KERN, LINES_LIMIT, OTHERS, TEXT_LIMIT, Captured, Line, Trust, captured

Reader = Callable[[str], "Line | None"]
# Colours of dmesg and journalctl; the kernel writes an escape inside a message as the four characters of \\x1b.
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,16}m")
_BOOT = re.compile(r"-- (?:Reboot --|Boot [0-9a-f]{32} --)")
_REMARK = "-- "
_PROBED = 2000
# An editor's mark of UTF-16, in which some terminals save.
_WIDE = (b"\xff\xfe", b"\xfe\xff")


def parse(data: bytes) -> Captured | None:
    """The log in the form that its first lines have; None when they have none that is known."""
    text = _decoded(data)
    if (found := structured(data, text)) is not None:
        return found
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    rows = [row.removesuffix("\r") for row in text.split("\n")[-LINES_LIMIT:]]
    form = _form([row for row in rows if row.strip() and not row.startswith(_REMARK)][:_PROBED])
    if form is None:
        return None
    lines: list[Line] = []
    garbled = boots = 0
    for row in rows:
        if not row.strip() or row[0] in " \t":
            continue  # KEY=value of the record before it, or the rest of a message of several lines
        if row.startswith(_REMARK):
            boots += _BOOT.match(row) is not None
            continue
        line = form.read(row)
        garbled += line is None
        if line is not None:
            lines.append(Line(line.seconds, line.text, line.facility, str(boots)) if boots else line)
    proven = form.loses and any((line.facility or 0) >= _PROVES for line in lines)
    trust: Trust = "kernel" if proven else form.trust
    return captured(form.name, trust, lines, garbled, yearless=form.yearless)


def _decoded(data: bytes) -> str:
    """The text; zeros are what a file system leaves in a file that was being written when the power went."""
    text = data.decode("utf-16" if data.startswith(_WIDE) else "utf-8", "replace")
    text = text.removeprefix("\ufeff")
    return text.replace("\0", "") if "\0" in text else text


def _form(rows: Sequence[str]) -> Form | None:
    """The first form, made anew, of the first line that has one."""
    for row in rows:
        for number, form in enumerate(forms()):
            if form.read(row) is not None:
                return forms()[number]
    return None


# -- forms of one line each


@dataclass(frozen=True, slots=True)
class Form:
    """One way to write a line; ``read`` gives None for a line of another form and may remember the line before.

    ``loses``: some programs of this form write a user's facility as the kernel's, which some lines disprove.
    """

    name: str
    trust: Trust
    read: Reader
    yearless: bool = False
    loses: bool = False


_RECORD = re.compile(r"(\d{1,6}),\d{1,20},(\d{1,20}),[^;\n]{0,64};(.*)")
# Kernels with PRINTK_CALLER say which task or processor wrote it: [    T1], [  C12].
_CALLER = r"(?: ?\[ *[TC]\d{1,10}\])?"
# With --show-delta, and in the journal's short-delta, the time since the line before stands beside it.
_DELTA = r"(?: *<[ +]*\d{0,12}(?:\.\d{1,9})? *>)?"
_RAW = re.compile(r"<(\d{1,6})>\[ *(\d{1,12}\.\d{1,9})\]" + _CALLER + " (.*)")
_HUMAN = re.compile(r"\[ *(\d{1,12}\.\d{1,9})" + _DELTA + r"\]" + _CALLER + " (.*)")
_CLOCK = re.compile(r"\[(\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})" + _DELTA + r"\]" + _CALLER + " (.*)")
_MONOTONIC = re.compile(
    r"\[ *(\d{1,12}\.\d{1,9})" + _DELTA + r"\] \S{1,255} (?:(kernel)|[\w./-]{1,64}\[\d{1,10}\]): ?(.*)"
)
_ISO = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[,.]\d{1,9}[+-]\d\d:?\d\d) (.*)")
_DECODED = re.compile(r"(\w{1,8}) *:(\w{1,7}) *: (.*)")
# rsyslog and syslog-ng can be told to write the priority in front.
_PRIORITY = r"(?:<(\d{1,3})>)?"
_FULL = re.compile(
    r"\w{3} (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d{1,9})? [\w+:-]{1,8} (\S{1,255}) "
    r"([\w./-]{1,64}(?:\[\d{1,10}\])?): ?(.*)"
)
_SYSLOG = re.compile(
    _PRIORITY + r"(\w{3} [ \d]\d \d\d:\d\d:\d\d)(?:\.\d{1,9})? (\S{1,255}) ([\w./-]{1,64}(?:\[\d{1,10}\])?): ?(.*)"
)
_SYSLOG_ISO = re.compile(
    _PRIORITY + r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[+-]\d\d:?\d\d|Z)) (\S{1,255}) "
    r"([\w./-]{1,64}(?:\[\d{1,10}\])?): ?(.*)"
)
_RFC5424 = re.compile(
    r"<(\d{1,3})>1 (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[+-]\d\d:?\d\d|Z)) \S{1,255} "
    r"(\S{1,64}) \S{1,128} \S{1,64} (?:-|(?:\[[^\]]{0,1024}\]){1,8}) ?(.*)"
)
_UNIX = re.compile(r"(\d{9,11}(?:\.\d{1,9})?) (\S{1,255}) ([\w./-]{1,64}(?:\[\d{1,10}\])?): ?(.*)")
_MINUTE = re.compile(r"\[(\w{3}) ?(\d{1,2} \d\d:\d\d)\]" + _CALLER + " (.*)")
_LATER = re.compile(r"\[ *\+(\d{1,9}\.\d{1,9})\]" + _CALLER + " (.*)")
_MINUTE_LENGTH = 60.0
# dmesg of util-linux puts facility and priority together without the shift, so that <12>, a user's warning, comes out
# as <5>. It never comes as far as <24>, the first of facility 3 (daemon), which systemd writes in while it starts.
_PROVES = 3
_FACILITIES = {"kern": 0, "user": 1, "mail": 2, "daemon": 3, "auth": 4, "syslog": 5}
_STAMP = re.compile(r"^\[ *\d{1,12}\.\d{1,9}\]" + _CALLER + " ")


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


def _syslog(row: str) -> Line | None:
    """Syslog keeps no year; the order of the lines is what counts."""
    match = _SYSLOG.fullmatch(row)
    when = _time(f"2024 {match[2]}", "%Y %b %d %H:%M:%S") if match else None
    return _of_syslog(when, match[4], match[5], match[1]) if match and when is not None else None


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
    when = _iso_time(match[2]) if match else None
    return _of_syslog(when, match[4], match[5], match[1]) if match and when is not None else None


def _rfc5424(row: str) -> Line | None:
    match = _RFC5424.fullmatch(row)
    when = _iso_time(match[2]) if match else None
    return _of_syslog(when, match[3], match[4].removeprefix("\ufeff"), match[1]) if match and when is not None else None


def _unix(row: str) -> Line | None:
    """``journalctl -o short-unix``, and syslog with such times."""
    match = _UNIX.fullmatch(row)
    return _of_syslog(float(match[1]), match[3], match[4]) if match else None


def _of_syslog(when: float, tag: str, text: str, priority: str | None = None) -> Line:
    """The kernel has no process id behind its tag; where a priority is written, its facility must fit, too."""
    own = tag == "kernel" and (priority is None or int(priority) >> 3 == KERN)
    return Line(when, _STAMP.sub("", text)[:TEXT_LIMIT], KERN if own else OTHERS)


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


class _Relative:
    """``dmesg -H``: the first line of each minute has the time, the others how long after the one before they came."""

    def __init__(self) -> None:
        self._last: float | None = None

    def read(self, row: str) -> Line | None:
        if match := _MINUTE.fullmatch(row):
            when = _time(f"2024 {match[1]} {match[2]}", "%Y %b %d %H:%M")
            # Times of a minute are its begin; what has come so far of this minute is not given back.
            self._last = when if when is None or self._last is None else max(when, self._last)
            if when is not None and self._last is not None and self._last - when >= _MINUTE_LENGTH:
                self._last = when
            return None if when is None else Line(self._last or 0.0, match[3][:TEXT_LIMIT])
        match = _LATER.fullmatch(row)
        if match is None:
            return None
        self._last = (self._last or 0.0) + float(match[1])
        return Line(self._last, match[2][:TEXT_LIMIT])


def forms() -> tuple[Form, ...]:
    """Every form, the more particular first."""
    relative = _Relative().read

    def decoded(row: str) -> Line | None:
        """``dmesg -x`` before any of the other times."""
        match = _DECODED.fullmatch(row)
        if match is None:
            return None
        times = (_human, _clock, _iso, relative)
        line = next((found for read in times if (found := read(match[3])) is not None), None)
        return line and Line(line.seconds, line.text, _FACILITIES.get(match[1], OTHERS))

    return (
        Form("/dev/kmsg records", "kernel", _record),
        Form("dmesg --raw", "unmarked", _raw, loses=True),
        Form("dmesg --decode", "kernel", decoded),
        Form("journal, monotonic times", "forgeable", _monotonic),
        Form("dmesg", "unmarked", _human),
        Form("dmesg --ctime", "unmarked", _clock),
        Form("dmesg --human", "unmarked", relative, yearless=True),
        Form("syslog, RFC 5424", "forgeable", _rfc5424),
        Form("syslog", "forgeable", _syslog, yearless=True),
        Form("journal, full times", "forgeable", _full),
        Form("journal, unix times", "forgeable", _unix),
        Form("syslog, ISO times", "forgeable", _syslog_iso),
        Form("dmesg --time-format iso", "unmarked", _iso),
    )
