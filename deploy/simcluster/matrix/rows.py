"""A row says how one scenario ended on one release and how it must end; what is not equal has not passed."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

OURS = "nodevet: "
PERSON = "nodevet/person: "
_SLURM = re.compile(r"(Prolog|Epilog) error|Kill task failed|Not responding|gres/\S+ count reported lower|Reboot ASAP")


class Outcome(msgspec.Struct, frozen=True):
    """How a scenario ends: whether the node is drained, whose reason it has, the job's state ('-': no job).

    ``also`` has what else was seen and counts, in words: how often the script ran, what stands beside the drain.
    """

    drained: bool
    owner: str
    job: str = "-"
    also: str = ""


class Row(msgspec.Struct, frozen=True):
    """One scenario on one release; ``state`` is the node's as Slurm writes it, ``settings`` those that matter here."""

    part: str
    scenario: str
    release: str
    node: str
    state: str
    reason: str
    observed: Outcome
    expected: Outcome
    seconds: float
    passed: bool
    trouble: str = ""
    settings: str = ""


class Fate(msgspec.Struct, frozen=True):
    """What a refused Prolog does to one kind of job on one release; seconds are counted from the refusal.

    ``to_start``: until the job runs on other nodes, None where it does not by itself. ``released``: until it runs
    after an administrator's ``scontrol release``, counted from that.
    """

    job: str
    settings: str
    release: str
    fate: str
    expected: str
    passed: bool
    to_start: float | None = None
    released: float | None = None
    trouble: str = ""


class Result(msgspec.Struct, frozen=True):
    """What ``nodevet sim matrix --json`` prints; ``seconds`` by release, ``impossible`` says why one was not played."""

    passed: bool
    releases: list[str]
    rows: list[Row]
    fates: list[Fate] = []
    seconds: dict[str, float] = {}
    impossible: dict[str, str] = {}
    simulated: bool = True


def owner(reason: str, state: str = "DRAIN") -> str:
    """Whose reason it is: ours, a person's through us, slurm's own, somebody else's, or none.

    24.11 leaves the reason on a node that was given back: it counts only with a state that keeps jobs away.
    """
    if not reason or not out_of_service(state):
        return "none"
    if reason.startswith(OURS):
        return "ours"
    if reason.startswith(PERSON):
        return "person"
    return "slurm" if _SLURM.match(reason) else "other"


def out_of_service(state: str) -> bool:
    """Whether a state as scontrol writes it keeps jobs away."""
    words = set(re.split(r"[+*]", state))
    return not words.isdisjoint({"DRAIN", "DOWN", "FAIL"})


def joined(results: Iterable[Result], impossible: dict[str, str]) -> Result:
    """The rows of several releases in one document."""
    found = list(results)
    return Result(
        passed=bool(found) and all(r.passed for r in found) and not impossible,
        releases=[name for r in found for name in r.releases],
        rows=[row for r in found for row in r.rows],
        fates=[fate for r in found for fate in r.fates],
        seconds={name: took for r in found for name, took in r.seconds.items()},
        impossible=impossible,
    )
