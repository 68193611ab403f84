"""The journal's own forms (json in all its spellings, verbose, export) name the transport, which no writer can set."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timezone

from checks.log.kept.line import KERN, LINES_LIMIT, OTHERS, TEXT_LIMIT, Captured, Line, captured

# What may stand around a document: record separators (json-seq), "data:" (json-sse), brackets and commas of a list.
_AROUND = re.compile(r"[\s\x1e,\[\]]*")
_SENT = "data:"
_DMESG = re.compile(r'\s*\{\s*"dmesg"\s*:\s*\[')
_MESSAGE_FIELDS = ('"__REALTIME_TIMESTAMP"', '"MESSAGE"')
_VERBOSE = re.compile(r"\w{3} (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.(\d{1,6}))? [\w+:-]{1,8} \[s=[^\]\n]{1,400}\]")
_FIELD = re.compile(r" {4}([A-Z0-9_]{1,64})=(.*)")
_MORE = re.compile(r" {8,}(.*)")


def structured(data: bytes, text: str) -> Captured | None:
    """The log when it is of one of these forms, else None."""
    if "__CURSOR=" in text[:4096] or "\n_TRANSPORT=" in text[:65536]:
        return captured("journal export", "kernel", list(_export(data)))
    head = text[:65536]
    if (begin := _DMESG.match(head)) is not None:
        lines, garbled = _documents(text, begin.end(), of_dmesg)
        named = bool(lines) and all(line.facility is not None for line in lines)
        return captured("dmesg --json", "kernel" if named else "unmarked", lines, garbled) if lines else None
    if head[_begin(head, 0) :][:1] == "{" and all(name in head for name in _MESSAGE_FIELDS):
        lines, garbled = _documents(text, 0, of_journal)
        return captured("journal json", "kernel", lines, garbled) if lines else None
    if any(_VERBOSE.match(row) for row in head.split("\n")[:20]):
        return captured("journal verbose", "kernel", list(_verbose(text)))
    return None


def _begin(text: str, at: int) -> int:
    """Where the next document begins; a repeated choice would cost 120 bytes of memory for each character skipped."""
    while True:
        around = _AROUND.match(text, at)
        at = around.end() if around else at
        if not text.startswith(_SENT, at):
            return at
        at += len(_SENT)


def _documents(text: str, at: int, read: Callable[[dict[str, object]], Line | None]) -> tuple[list[Line], int]:
    """Every object, on one line each or spread over many; what is none is left up to the next line's begin."""
    decoder = json.JSONDecoder()
    found: list[Line] = []
    garbled = 0
    while len(found) + garbled < LINES_LIMIT:
        at = _begin(text, at)
        if at >= len(text):
            break
        if text[at] == "}":  # the end of what stood around a list
            at += 1
            continue
        try:
            entry, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            # A cut or broken one: go on where a line begins with the next.
            following = text.find("\n{", at)
            garbled += 1
            at = following + 1 if following >= 0 else len(text)
            continue
        line = read(entry) if isinstance(entry, dict) else None
        garbled += line is None
        found += [line] if line is not None else []
    return found, garbled


def of_dmesg(entry: dict[str, object]) -> Line | None:
    """A record of ``dmesg --json``; its facility only where it is named (``-x``), the number beside it has lost it."""
    text, when, named = entry.get("msg"), entry.get("time"), entry.get("fac")
    if not isinstance(text, str) or isinstance(when, bool) or not isinstance(when, int | float):
        return None
    if not 0 <= when < 1e12:
        return None
    facility = None if named is None else KERN if named == "kern" else OTHERS
    return Line(float(when), text[:TEXT_LIMIT], facility)


def of_journal(entry: dict[str, object]) -> Line | None:
    """The transport is the journal's own word, which no writer can set."""
    text, when = entry.get("MESSAGE"), entry.get("__REALTIME_TIMESTAMP")
    if isinstance(text, list):  # bytes that are no text
        text = bytes(b for b in text if isinstance(b, int) and 0 <= b < 256).decode("utf-8", "replace")
    if isinstance(when, int) and not isinstance(when, bool):  # a program in between took it for a number
        when = str(when)
    if not isinstance(text, str) or not isinstance(when, str) or not (when.isascii() and when.isdecimal()):
        return None
    if len(when) > 20:
        return None
    facility = KERN if entry.get("_TRANSPORT") == "kernel" else OTHERS
    named = str(entry.get("SYSLOG_FACILITY", ""))
    if facility == KERN and named.isascii() and named.isdecimal():
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
            if line := of_journal(entry):
                yield line
            entry = {}
            continue
        key, sign, value = row.partition(b"=")
        if not sign:
            size = int.from_bytes(data[at : at + 8], "little")
            value, at = data[at + 8 : at + 8 + size], at + 8 + size + 1
        entry[key.decode("ascii", "replace")] = value.decode("utf-8", "replace")
    if line := of_journal(entry):
        yield line


def _verbose(text: str) -> Iterator[Line]:
    """Entries of ``journalctl -o verbose``: a line of time and cursor, then the fields; the zone is left aside."""
    entry: dict[str, object] = {}
    key = ""
    for row in text.split("\n")[: LINES_LIMIT * 30]:
        if head := _VERBOSE.match(row):
            if line := of_journal(entry):
                yield line
            entry, key = {"__REALTIME_TIMESTAMP": _microseconds(head[1], head[2] or "")}, ""
        elif field := _FIELD.fullmatch(row):
            key = field[1]
            # The time is the head's; a field of that name would be the writer's.
            entry.setdefault(key, field[2])
        elif key and (more := _MORE.fullmatch(row)):
            entry[key] = f"{entry[key]}\n{more[1]}"[: TEXT_LIMIT * 2]
    if line := of_journal(entry):
        yield line


def _microseconds(when: str, fraction: str) -> str:
    try:
        seconds = datetime.strptime(when, "%Y-%m-%d %H:%M:%S").replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return ""
    return f"{max(0, int(seconds))}{fraction.ljust(6, '0')}"
