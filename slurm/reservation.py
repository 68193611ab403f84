"""A reservation keeps nodes for somebody for a time; it ends by itself, so that nothing of ours has to be tidied up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from slurm.errors import BadAnswer, BadRequest
from slurm.hostlist import HostlistError, expand, fold
from slurm.names import checked_nodes, checked_word
from slurm.nodes import time_from_json, time_from_text
from slurm.text import parse_records

LONGEST = 366 * 24 * 3600  # seconds
FLAGS = frozenset({"MAINT", "IGNORE_JOBS", "OVERLAP", "FLEX"})


@dataclass(frozen=True, slots=True)
class Reservation:
    """One that is wished for, from now on.

    MAINT makes the nodes ``MAINT`` for everybody, Nodevet included; IGNORE_JOBS lets it begin where jobs still run.
    """

    name: str
    nodes: tuple[str, ...]
    seconds: int
    users: tuple[str, ...] = ("root",)
    flags: tuple[str, ...] = ("MAINT", "IGNORE_JOBS")

    @property
    def hostlist(self) -> str:
        """The nodes as Slurm writes them."""
        return fold(self.nodes)

    @property
    def minutes(self) -> int:
        """The time in Slurm's whole minutes, never shorter than wished."""
        return -(-self.seconds // 60)


@dataclass(frozen=True, slots=True)
class Reserved:
    """One that exists; what was not told is None or empty."""

    name: str
    nodes: tuple[str, ...] = ()
    start: datetime | None = None
    end: datetime | None = None
    flags: frozenset[str] = frozenset()
    users: tuple[str, ...] = ()


def checked_reservation(wish: Reservation) -> Reservation:
    """Return the wish, or raise BadRequest where a word of it could mean something else to Slurm."""
    checked_word(wish.name, "reservation")
    checked_nodes(wish.nodes)
    for user in wish.users:
        checked_word(user, "user")
    if not wish.users:
        raise BadRequest(f"reservation {wish.name} is for nobody")
    if unknown := set(wish.flags) - FLAGS:
        raise BadRequest(f"reservation {wish.name}: flag {min(unknown)!r}, expected some of {', '.join(sorted(FLAGS))}")
    if not 0 < wish.seconds <= LONGEST:
        raise BadRequest(f"reservation {wish.name} for {wish.seconds} s, expected 1 to {LONGEST} s")
    return wish


def reservations_from_text(text: str) -> dict[str, Reserved]:
    """Read ``scontrol show reservation``; an answer that says there are none is an empty one."""
    found: dict[str, Reserved] = {}
    for record in parse_records(text, "ReservationName"):
        name = record["ReservationName"]
        found[name] = Reserved(
            name,
            nodes=_nodes(record.get("Nodes", "")),
            start=time_from_text(record.get("StartTime", "")),
            end=time_from_text(record.get("EndTime", "")),
            flags=frozenset(_split(record.get("Flags", ""))),
            users=_split(record.get("Users", "")),
        )
    if not found and "No reservations" not in text:
        raise BadAnswer(f"answer holds no reservation: {text.strip()[:100]!r}")
    return found


def reservations_from_json(items: object) -> dict[str, Reserved]:
    """Read the list of reservations in an answer of slurmrestd."""
    if not isinstance(items, list):
        raise BadAnswer("answer holds no list of reservations")
    seen = (_reserved(item) for item in items if isinstance(item, Mapping) and isinstance(item.get("name"), str))
    return {reserved.name: reserved for reserved in seen}


def _reserved(item: Mapping[str, object]) -> Reserved:
    flags = item.get("flags")
    words = [flag for flag in flags if isinstance(flag, str)] if isinstance(flags, list) else []
    return Reserved(
        str(item["name"]),
        nodes=_nodes(str(item.get("node_list") or "")),
        start=time_from_json(item.get("start_time")),
        end=time_from_json(item.get("end_time")),
        flags=frozenset(words),
        users=_split(str(item.get("users") or "")),
    )


def _nodes(text: str) -> tuple[str, ...]:
    try:
        return tuple(expand(text)) if text and text != "(null)" else ()
    except HostlistError:
        return ()


def _split(text: str) -> tuple[str, ...]:
    return tuple(word for word in text.split(",") if word and word != "(null)")
