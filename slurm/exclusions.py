"""Which nodes users exclude by hand is told by the jobs that wait or run, in one question for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slurm.errors import BadAnswer
from slurm.hostlist import HostlistError, expand

# Two numbers and Slurm's own list of nodes: no column that a user can fill with blanks or line breaks.
FORMAT = "%A %U %x"
NODES_LIMIT = 20_000
_NONE = frozenset({"", "(null)", "N/A", "n/a"})


@dataclass(frozen=True, slots=True)
class Exclusion:
    """One job that must not run on some nodes."""

    job_id: int
    uid: int
    nodes: tuple[str, ...]


def exclusions_from_columns(text: str) -> list[Exclusion]:
    """Read the answer of ``squeue -h -o`` to `FORMAT`; jobs that exclude nothing are left out."""
    found = []
    for line in text.split("\n"):
        words = line.split()
        if not words:
            continue
        if not (2 <= len(words) <= 3 and all(w.isascii() and w.isdigit() for w in words[:2])):
            raise BadAnswer(f"squeue: {line.strip()[:100]!r} is no row of a job")
        if len(words) == 3 and (made := _exclusion(int(words[0]), int(words[1]), words[2])) is not None:
            found.append(made)
    return found


def exclusions_from_json(found: Mapping[str, object]) -> list[Exclusion]:
    """Read the jobs of slurmrestd; ended ones, which it lists for a while, are left out."""
    jobs = found.get("jobs")
    if not isinstance(jobs, list):
        raise BadAnswer("answer holds no list of jobs")
    made = []
    for item in jobs:
        if not isinstance(item, Mapping):
            continue
        states = item.get("job_state")
        words = states if isinstance(states, list) else [states]
        job_id, uid, nodes = item.get("job_id"), item.get("user_id"), item.get("excluded_nodes")
        if not {"PENDING", "RUNNING", "CONFIGURING", "SUSPENDED"} & {w for w in words if isinstance(w, str)}:
            continue
        if isinstance(job_id, int) and isinstance(uid, int) and isinstance(nodes, str):
            one = _exclusion(job_id, uid, nodes)
            made += [one] if one is not None else []
    return made


def _exclusion(job_id: int, uid: int, nodes: str) -> Exclusion | None:
    if nodes in _NONE:
        return None
    try:
        return Exclusion(job_id, uid, expand(nodes, limit=NODES_LIMIT))
    except HostlistError:
        return None
