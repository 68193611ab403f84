"""The text of ``scontrol show`` is read key by key, so a value may hold blanks, ``=``, braces and line breaks.

Two layouts exist: several lines a record, continuation lines indented by ten blanks (what we ask for), and one line
a record (``-o``). A record starts only at a line's very beginning, and the first occurrence of a key wins: what a
person typed into a reason, comment or extra comes after the fields that Slurm itself fills in.
"""

from __future__ import annotations

import re

MAX_RECORDS = 200_000

# These values run to the end of the line; in the one-line layout to the next of the keys named here.
_REST: dict[str, tuple[str, ...]] = {
    "OS": ("RealMemory",),
    "Reason": ("Comment", "Extra"),
    "Comment": ("Extra", "InstanceId", "InstanceType", "ReservationName", "StdErr", "WorkDir"),
    "Extra": ("InstanceId", "InstanceType", "ReservationName"),
    "JobName": ("UserId",),
    "AdminComment": ("SystemComment", "Comment", "Command"),
    "SystemComment": ("Comment", "Command"),
    "Command": ("SubmitLine", "WorkDir"),
    "SubmitLine": ("WorkDir",),
    "WorkDir": ("AdminComment", "Comment", "StdErr"),
    "StdErr": ("StdIn",),
    "StdIn": ("StdOut",),
    "StdOut": ("Power", "TresPerNode"),
}
_TYPED = frozenset({"Reason", "Comment", "Extra"})
_KEY = re.compile(r"(?:^|(?<=\s))([A-Za-z][A-Za-z0-9_/:&.()-]*)=")
_INDENT = " " * 8
_REASON_TAIL = re.compile(r"\[[^\]\s@]*@[^\]\s]*\](?=\s{8}| (?:Comment|Extra)=|$)")


def parse_records(text: str, key: str) -> list[dict[str, str]]:
    """Split the answer into records, each starting with ``key=`` at the beginning of a line."""
    records: list[dict[str, str]] = []
    start = key + "="
    current: list[str] | None = None
    for line in text.split("\n"):
        if line.startswith(start):
            if current is not None:
                records.append(_record(current))
            if len(records) >= MAX_RECORDS:
                return records
            current = [line]
        elif current is not None:
            current.append(line)
    if current is not None:
        records.append(_record(current))
    return records


def parse_config(text: str) -> dict[str, str]:
    """Read ``scontrol show config``: ``Key = value``, where ``Prolog[0]``, ``Prolog[1]`` join with commas."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        name, sign, value = line.partition("=")
        match = re.fullmatch(r"([A-Za-z][A-Za-z0-9_]*)(?:\[(\d+)\])?", name.strip())
        if not sign or match is None:
            continue
        key, index = match.group(1), match.group(2)
        if key not in found:
            found[key] = value.strip()
        elif index is not None:
            found[key] = f"{found[key]},{value.strip()}"
    return found


def _record(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    last = ""
    for number, line in enumerate(lines):
        if number and line.startswith(_INDENT) and last:
            found[last] += "\n" + line.strip(" ")
            continue
        last = _line(line.strip(), found, alone=len(lines) <= 2)
    return found


def _line(line: str, found: dict[str, str], *, alone: bool) -> str:
    """Read one line into `found`; the name of the value that a continuation line would go on with comes back."""
    position, last = 0, ""
    while match := _KEY.search(line, position):
        key, begin = match.group(1), match.end()
        end = _end(line, key, begin, alone=alone)
        value = line[begin:end].strip()
        last = key if key in _REST and key not in found else ""
        found.setdefault(key, _unfolded(value) if alone and key in _TYPED else value)
        position = end
    return last


def _end(line: str, key: str, begin: int, *, alone: bool) -> int:
    followers = _REST.get(key)
    if followers is None:
        match = _KEY.search(line, begin)
        return match.start() if match else len(line)
    if not alone:
        return len(line)
    if key == "Reason" and (tail := _REASON_TAIL.search(line, begin)):
        begin = tail.end()
    follower = re.compile(r" (?:" + "|".join(followers) + r")=").search(line, begin)
    return follower.start() if follower else len(line)


def _unfolded(value: str) -> str:
    """Undo the folding of line breaks in the one-line layout (eight blanks)."""
    return value.replace(_INDENT, "\n")
