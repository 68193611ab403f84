"""A policy file is read as a whole, and everything that is wrong with it is named by its line."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import msgspec

from checks.judge import reach
from checks.judge.lines import line_of, lines_of
from checks.judge.nearest import nearest
from checks.judge.policy import TABLES, Policy, over
from checks.judge.rules import Pack, Rule
from checks.wire import Blame, Status

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

_AT = re.compile(r" - at `\$[^`]*`")
_LINE = re.compile(r" ?\(at line (\d+), column (\d+)\)")
_NUMBER = re.compile(r"\d{1,6}")
SITE = "site_"
Where = tuple[str, ...]


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing wrong in one file; an error makes the file useless, a warning says that a value has no effect."""

    line: int
    level: Literal["error", "warning"]
    text: str


@dataclass(frozen=True, slots=True)
class Known:
    """What is declared: status and blame of each code, the codes each table may give, and the names of checks."""

    codes: Mapping[str, tuple[Status, Blame | None]]
    tables: Mapping[str, frozenset[str]] = field(default_factory=dict)
    checks: frozenset[str] = frozenset()


def examine(text: str, known: Known, below: Policy) -> tuple[Problem, ...]:
    """Everything wrong with one policy file that is laid over ``below``, in the order of its lines."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        place = _LINE.search(str(error))
        line = int(place[1]) if place else max(1, len(text.splitlines()))
        column = f"column {place[2]}: " if place else ""
        return (Problem(line, "error", column + _LINE.sub("", str(error)).replace(" (at end of document)", "")),)
    where = lines_of(text)
    found = [*_top(raw), *(p for part in TABLES for p in _table(part, raw, known, below))]
    return tuple(sorted({Problem(line_of(where, path), level, said) for path, level, said in found}))


Said = tuple[Where, Literal["error", "warning"], str]


def _top(raw: Mapping[str, Any]) -> Iterator[Said]:
    if "version" not in raw:
        yield (), "error", "no version: every policy file has one"
    for key, value in raw.items():
        if key not in Pack.__struct_fields__:
            yield (key,), "error", f"no table or key {key!r}{nearest(key, Pack.__struct_fields__)}"
        elif key in TABLES and not isinstance(value, dict):
            yield (key,), "error", f"{key} is no table"
        elif key not in TABLES and not isinstance(value, str):
            yield (key,), "error", f"{key} {value!r}: expected a text"


def _table(part: str, raw: Mapping[str, Any], known: Known, below: Policy) -> Iterator[Said]:
    table = raw.get(part)
    entries = table if isinstance(table, dict) else {}
    for key, given in entries.items():
        if not isinstance(given, dict):
            yield (part, key), "error", f"{part}.{key} is no table"
            continue
        wrong = list(_fields(part, key, given))
        yield from wrong
        if wrong:
            continue
        entry = msgspec.convert(given, TABLES[part])
        lower = getattr(below, part).get(key)
        merged = over(lower, entry) if lower is not None else entry
        yield from _names(part, key, given, merged, known)
        for name, level, said in reach.judged(part, key, given, merged, _effective(part, key, merged, known, below)):
            yield (part, key, name), level, f"{part}.{key}: {said}"
    yield from _among(part, entries, below)


def _fields(part: str, key: str, given: Mapping[str, Any]) -> Iterator[Said]:
    """What cannot be read, value by value, so that each is named by its own line."""
    kind = TABLES[part]
    for name, value in given.items():
        if name not in kind.__struct_fields__:
            known = nearest(name, kind.__struct_fields__)
            yield (part, key, name), "error", f"{part}.{key} has no value {name!r}{known}"
            continue
        try:
            msgspec.convert({name: value}, kind)
        except msgspec.ValidationError as error:
            yield (part, key, name), "error", f"{part}.{key}.{name}: {_AT.sub('', str(error))}"


def _names(part: str, key: str, given: Mapping[str, Any], merged: msgspec.Struct, known: Known) -> Iterator[Said]:
    """Codes, checks and keys that nobody knows."""
    here = (part, key)
    if part == "codes" and key not in known.codes and not key.startswith(SITE):
        yield here, "error", f"no check gives the code {key!r}{nearest(key, known.codes)}"
    if part == "defaults":
        status, _, blame = key.partition(".")
        if status not in get_args(Status) or blame not in get_args(Blame):
            yield here, "error", f"defaults.{key}: expected status.blame, such as fail.node"
    wanted = {"xid": ("default",), "dcgm": tuple(f"severity-{n}" for n in range(1, 7))}.get(part)
    if wanted is not None and key not in wanted and not _NUMBER.fullmatch(key):
        yield here, "error", f"{part}.{key}: expected a number or one of {', '.join(wanted)}"
    giving = known.tables.get(part)
    code = given.get("code")
    if giving and code is not None and code not in giving:
        yield (*here, "code"), "error", f"{part}.{key}: no code {code!r} is given by this table{nearest(code, giving)}"
    judge = given.get("judge")
    if judge and known.checks and judge not in known.checks:
        yield (*here, "judge"), "error", f"{part}.{key}: no check {judge!r}{nearest(judge, known.checks)}"


def _effective(part: str, key: str, merged: msgspec.Struct, known: Known, below: Policy) -> reach.Effect:
    """The status, blame and rule that an entry leads to."""
    if part == "defaults":
        word, _, whom = key.partition(".")
        return reach.Effect(word, whom, merged if isinstance(merged, Rule) else Rule())
    code = key if part == "codes" else getattr(merged, "code", None)
    declared = known.codes.get(code or "")
    own = merged if isinstance(merged, Rule) else below.codes.get(code or "", Rule())
    raised = "fail" if part == "codes" and _raised(key, below) else None
    status = own.status or getattr(merged, "status", None) or raised or (declared[0] if declared else None)
    blame = own.blame or getattr(merged, "blame", None) or (declared[1] if declared else None)
    rule = over(below.defaults.get(f"{status}.{blame}", Rule()), own)
    return reach.Effect(status, blame, rule, declared[1] if declared else None)


def _raised(code: str, below: Policy) -> bool:
    """Whether some entry of a table makes a fail of this code."""
    tables = [e for part in ("kernel", "sxid", "xid", "dcgm") for e in getattr(below, part).values() if e.code == code]
    counters = below.counter.values() if code == "rdma_errors" else ()
    return any(entry.status == "fail" for entry in (*tables, *counters))


def _among(part: str, entries: Mapping[str, Any], below: Policy) -> Iterator[Said]:
    """Entries that contradict another of the same table, or speak of one that is not there."""
    known = {**getattr(below, part), **entries}
    same = {"kernel": "match", "counter": "path"}.get(part, "")
    for key, given in entries.items():
        if not isinstance(given, dict):
            continue
        for name in {"sxid": ("kind", "ends"), "nvlink": ("unless",)}.get(part, ()):
            if isinstance(named := given.get(name), str) and named and named not in known:
                hint = nearest(named, known)
                yield (part, key, name), "error", f"{part}.{key}: {name} {named!r} is no entry of this table{hint}"
        for other in known if same and given.get(same) else ():
            twin = known[other]
            value = twin.get(same) if isinstance(twin, dict) else getattr(twin, same)
            if other != key and value == given[same]:
                yield (part, key, same), "warning", f"{part}.{key}: {same} is that of {part}.{other} too: told twice"
