"""Answers about nodes, in text or in either shape of JSON, become `NodeState` values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timezone

import msgspec

from slurm.errors import BadAnswer, error_for
from slurm.state import NodeState, Reason
from slurm.text import parse_records
from slurm.words import MAX_STATE_CHARS, StateWords, state_text, state_words

_EMPTY = frozenset({"", "(null)", "N/A", "n/a", "None", "none", "Unknown"})
_SET_BY = re.compile(r"(?s)(.*?)\s*\[([^\]\s@]*)@(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d|Unknown)\](\n.*)?")
_NO_TIME = 0xFFFFFFF0  # Slurm's "no value" and "infinite" sentinels lie above


def nodes_from_text(text: str) -> dict[str, NodeState]:
    """Read ``scontrol show node``; times in it are taken as UTC (we ask with TZ=UTC). BadAnswer without any node."""
    found: dict[str, NodeState] = {}
    for record in parse_records(text, "NodeName"):
        state = _from_record(record)
        found.setdefault(state.name, state)
    if not found:
        raise BadAnswer(f"answer holds no node: {text.strip()[:100]!r}")
    return found


def nodes_from_json(data: bytes) -> dict[str, NodeState]:
    """Read ``scontrol show node --json`` (23.02 and later) or ``sinfo --json`` (21.08 to 22.05)."""
    found: dict[str, NodeState] = {}
    for item in _items(data):
        if isinstance(item, Mapping) and isinstance(item.get("name"), str):
            state = _from_json(item)
            found.setdefault(state.name, state)
    return found


def _items(data: bytes) -> list[object]:
    """Take the nodes out of an answer, or raise what it complains of."""
    try:
        answer = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BadAnswer(f"answer is not JSON: {error}") from error
    items = answer.get("nodes") if isinstance(answer, Mapping) else None
    complaints = answer.get("errors") if isinstance(answer, Mapping) else None
    if not items and isinstance(complaints, list) and complaints:
        raise error_for(" ".join(_complaint(complaint) for complaint in complaints[:5]), step="answer about nodes")
    if not isinstance(items, list):
        raise BadAnswer("answer holds no list of nodes")
    return items


def _complaint(complaint: object) -> str:
    words = complaint.values() if isinstance(complaint, Mapping) else [complaint]
    return " ".join(word[:300] for word in words if isinstance(word, str))


def _from_record(record: Mapping[str, str]) -> NodeState:
    words = state_text(record.get("State", ""))
    return NodeState(
        name=record.get("NodeName", ""),
        base=words.base,
        flags=words.flags,
        known=words.known,
        reason=_reason_text(record.get("Reason", "")),
        boot_time=time_from_text(record.get("BootTime", "")),
        slurmd_start_time=time_from_text(record.get("SlurmdStartTime", "")),
        partitions=_split(record.get("Partitions")),
        gres=_text(record.get("Gres")),
        features=_split(record.get("ActiveFeatures")),
        available_features=_split(record.get("AvailableFeatures")),
        cpus=_digits(record.get("CPUTot")),
        alloc_cpus=_digits(record.get("CPUAlloc")),
        real_memory=_digits(record.get("RealMemory")),
        version=_text(record.get("Version")),
        comment=_note(record.get("Comment")),
        extra=_note(record.get("Extra")),
        next_state=_text(record.get("NextState")),
    )


def _from_json(item: Mapping[str, object]) -> NodeState:
    words = _json_state(item)
    features = item.get("active_features")
    available = item.get("features")
    return NodeState(
        name=str(item["name"]),
        base=words.base,
        flags=words.flags,
        known=words.known,
        reason=_reason_json(item),
        boot_time=time_from_json(item.get("boot_time")),
        slurmd_start_time=time_from_json(item.get("slurmd_start_time")),
        partitions=_split(item.get("partitions")),
        gres=_text(item.get("gres")),
        features=_split(features),
        available_features=_split(available),
        cpus=number(item.get("cpus")),
        alloc_cpus=number(item.get("alloc_cpus")),
        real_memory=number(item.get("real_memory")),
        version=_text(item.get("version")) or _text(item.get("slurmd_version")),
        comment=_note(item.get("comment")),
        extra=_note(item.get("extra")),
        next_state=_next_state(item),
    )


def _json_state(item: Mapping[str, object]) -> StateWords:
    """Either field is one text or a list of them, by release; a base that is not told must not be taken from a flag."""
    return state_words([*(_words(item.get("state")) or ["?"]), *_words(item.get("state_flags"))])


def _words(value: object) -> list[str]:
    texts = value if isinstance(value, list) else [value]
    return [word for text in texts if isinstance(text, str) for word in text[:MAX_STATE_CHARS].split("+") if word]


def _next_state(item: Mapping[str, object]) -> str | None:
    words = item.get("next_state_after_reboot")
    if not isinstance(words, list):
        words = item.get("next_state_after_reboot_flags")
    told = [word for word in words if isinstance(word, str)] if isinstance(words, list) else []
    return next((word for word in told if word in {"RESUME", "DOWN"}), None)


def _reason_text(value: str) -> Reason | None:
    if value in _EMPTY:
        return None
    if (match := _SET_BY.fullmatch(value)) is None:
        return Reason(value)
    text, user, at, more = match.groups()
    return Reason(text + (more or ""), user or None, time_from_text(at))


def _reason_json(item: Mapping[str, object]) -> Reason | None:
    text = item.get("reason")
    if not isinstance(text, str) or not text:
        return None
    return Reason(text, _text(item.get("reason_set_by_user")), time_from_json(item.get("reason_changed_at")))


def time_from_text(value: str) -> datetime | None:
    """Read ``2026-12-01T05:03:29`` as UTC; None for ``None``, ``Unknown`` and whatever else is no time."""
    try:
        return datetime.strptime(value, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=timezone.utc)
    except ValueError:
        return None


def time_from_json(value: object) -> datetime | None:
    """Read a time given as seconds or as ``{"set", "infinite", "number"}``; None when unset."""
    seconds = number(value)
    if seconds is None or not 0 < seconds < _NO_TIME:
        return None
    return datetime.fromtimestamp(seconds, timezone.utc)


def number(value: object) -> int | None:
    """Read a number given as such or as ``{"set", "infinite", "number"}``; None when unset or not a number."""
    if isinstance(value, Mapping):
        if not value.get("set") or value.get("infinite"):
            return None
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if abs(value) < 2**63 else None


def _digits(value: str | None) -> int | None:
    return int(value) if value and value.isascii() and value.isdigit() and len(value) < 19 else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value not in _EMPTY else None


def _note(value: object) -> str | None:
    """Somebody's words, of which "None" is one."""
    return value if isinstance(value, str) and value not in ("", "(null)") else None


def _split(value: object) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(part for part in value if isinstance(part, str) and part)
    if not isinstance(value, str) or value in _EMPTY:
        return ()
    return tuple(part for part in (piece.strip() for piece in value.split(",")) if part)
