"""What dcgmi prints as JSON is read the same in each of its generations, and no text makes the reader fail."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from checks.dcgm.ask import Unusable
from checks.declare import clean

DEPTH = 12
KEPT = 512
_STATUS = {
    "pass": "pass", "passed": "pass", "fail": "fail", "failed": "fail", "failure": "fail", "warn": "warn",
    "warning": "warn", "skip": "skip", "skipped": "skip", "not run": "skip", "notrun": "skip", "n/a": "skip",
}  # fmt: skip
_SAID = frozenset({"warnings", "info", "aux_data", "auxData"})


@dataclass(frozen=True, slots=True)
class Error:
    """One error of a test; before 3.1 it was text alone."""

    text: str
    id: int | None = None
    severity: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """One test's outcome: pass, fail, warn, skip or unknown; ``gpus`` by DCGM's number, empty for all of them."""

    test: str
    status: str
    gpus: tuple[int, ...] = ()
    part: str = ""
    errors: tuple[Error, ...] = ()


@dataclass(frozen=True, slots=True)
class Diag:
    """A whole diagnostic: its results, the version that made them and the serial of each GPU where it is told."""

    results: tuple[Result, ...]
    version: str = ""
    serials: dict[int, str] = field(default_factory=dict)


def document(text: str) -> dict[str, Any]:
    """The first JSON object in what was printed; raises Unusable for anything else, such as one that was cut off."""
    start = text.find("{")
    try:
        made, _ = json.JSONDecoder().raw_decode(text, max(start, 0))
    except (ValueError, RecursionError) as error:
        raise Unusable(f"its answer is no JSON: {error}") from error
    if not isinstance(made, dict):
        raise Unusable("its answer is no JSON object")
    return made


def read_diag(text: str) -> Diag:
    """Every test's outcome at whatever depth it stands; raises Unusable where no test was run."""
    made = document(text)
    results = tuple(_results(made, "", 0))
    if trouble := _first(made, ("runtime_error", "error"), 3):
        raise Unusable(clean(trouble, 200))
    if not results:
        raise Unusable("its answer names no test")
    named = {(r.test, r.status) for r in results if r.gpus}
    # A test's summary repeats what its GPUs said; where none of them said it, the summary counts.
    kept = [r for r in results if r.gpus or not r.part.startswith("summary") or (r.test, r.status) not in named]
    return Diag(tuple(kept[:KEPT]), _first(made, ("version", "DCGM Version"), 3), _serials(made))


def _results(node: object, test: str, depth: int, part: str = "") -> Iterator[Result]:
    if depth > DEPTH:
        return
    if isinstance(node, list):
        for item in node[:KEPT]:
            yield from _results(item, test, depth + 1, part)
    elif isinstance(node, dict):
        name = next((node[k] for k in ("name", "test_name") if isinstance(node.get(k), str)), test)
        if isinstance(node.get("status"), str):
            yield _result(node, clean(name, 64), part)
        for key, value in node.items():
            if key not in _SAID:
                yield from _results(value, name, depth + 1, "summary" if key == "test_summary" else "")


def _result(node: dict[str, Any], test: str, part: str) -> Result:
    status = _STATUS.get(node["status"].strip().lower(), "unknown")
    group = node.get("entity_group", "GPU")
    named = [node.get("entity_id")] if group == "GPU" else []
    for key in ("gpu_id", "gpu_ids"):
        named += str(node.get(key, "")).lower().replace("gpu", "").split(",")
    gpus = tuple(int(n) for n in named if n is not None and str(n).strip().isdecimal() and len(str(n)) < 5)
    if group != "GPU":
        part = clean(f"{group} {node.get('entity_id', '')}", 64)
    return Result(test or "test", status, gpus, part, tuple(_errors(node.get("warnings"))))


def _errors(said: object) -> Iterator[Error]:
    for item in (said if isinstance(said, list) else [said])[:KEPT]:
        if isinstance(item, str) and item.strip():
            yield Error(clean(item, 300))
        elif isinstance(item, dict):
            text = item.get("warning") or item.get("message") or ""
            yield Error(clean(text, 300), _number(item.get("error_id")), _number(item.get("error_severity")))


def _number(value: object) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 7:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _first(node: object, names: tuple[str, ...], depth: int) -> str:
    """The first text under one of these names, not deeper than that."""
    if not isinstance(node, dict) or depth < 0:
        return ""
    for name in names:
        if isinstance(node.get(name), str) and node[name].strip():
            return str(node[name])
    return next((found for value in node.values() if (found := _first(value, names, depth - 1))), "")


def _serials(made: dict[str, Any]) -> dict[int, str]:
    """DCGM's number of each GPU and its serial, which both generations tell in a place of their own."""
    found: dict[int, str] = {}
    groups = made.get("entity_groups")
    for group in groups if isinstance(groups, list) else []:
        entities = group.get("entities") if isinstance(group, dict) and group.get("entity_group") == "GPU" else None
        for entity in entities if isinstance(entities, list) else []:
            number = _number(entity.get("entity_id")) if isinstance(entity, dict) else None
            if number is not None:
                found[number] = clean(entity.get("serial_num", ""), 64)
    for holder in (made, made.get("metadata"), *made.values()):
        told = holder.get("GPU Device Serials") if isinstance(holder, dict) else None
        for key, value in told.items() if isinstance(told, dict) else ():
            if str(key).isdecimal() and len(str(key)) < 5:
                found[int(key)] = clean(value, 64)
    return found
