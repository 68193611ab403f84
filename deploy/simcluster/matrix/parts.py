"""The matrix has two clusters a release: one where every fault counts by itself, one with the guard as delivered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from deploy.simcluster.cluster import Options
from deploy.simcluster.matrix import back, faults, gate, guarded, owners, quiet, refusals, trouble
from deploy.simcluster.matrix.scenario import Act, Part
from deploy.simcluster.matrix.stage import auth

CRED_EXPIRE = 8
# One fault a node within minutes, and each is to be seen by itself: what the guard does is tried on the other cluster.
WIDE = (
    "belief = 0.0\nlease_share = 1.0\nlease_seconds = 20.0\n"
    "[guard]\ndrained_least = 99\nhourly_least = 99\nalike_least = 99\n"
    "floor_share = 0.0\ngroup_least = 99\nrollout_least = 99\nwhole_share = 1.0\n"
)
# What takes longest begins first. A refusal has three seconds for its permit: not too many at a time.
LONG = tuple(s for subject in (back, owners, faults, quiet) for s in subject.SCENARIOS)
MAIN = (Act(LONG), Act((*refusals.SCENARIOS, *gate.SCENARIOS), at_once=5), *trouble.ACTS)


def wide(base: Path) -> Options:
    """Looks are 15 s apart, refused jobs wait 9 s."""
    conf = f"{auth(base, CRED_EXPIRE)}SlurmdTimeout=20\nRebootProgram=/bin/true\nResumeTimeout=600\n"
    return Options(interval=15.0, prolog_age=1.0, slurm_conf=conf, server=WIDE, often=False)


def close(base: Path) -> Options:
    """The guard as delivered, on nodes whose slurmd tells what it really has."""
    conf = f"{auth(base, CRED_EXPIRE)}SlurmdParameters=l3cache_as_socket\n"
    return Options(interval=10.0, prolog_age=1.0, slurm_conf=conf, often=False, cpus=1)


PARTS = (Part("wide guard", wide, MAIN), Part("ordinary guard", close, guarded.ACTS))


def chosen(only: Iterable[str], release: str, parts: Iterable[Part] = PARTS) -> Iterator[Part]:
    """The parts with the scenarios that this release knows and whose name or settings have one of these words."""
    words = tuple(only)
    for part in parts:
        acts = []
        for act in part.acts:
            if older(release, act.since):
                continue
            kept = tuple(
                s
                for s in act.scenarios
                if not older(release, s.since)
                and (not words or any(word in f"{s.name} {act.settings}" for word in words))
            )
            acts += [replace(act, scenarios=kept)] if kept else []
        if acts:
            yield replace(part, acts=tuple(acts))


def older(release: str, since: str) -> bool:
    """Whether a release is older than the first that knows something."""
    return bool(since) and numbers(release) < numbers(since)


def numbers(release: str) -> tuple[int, ...]:
    """A release as numbers that can be compared."""
    return tuple(int(word) for word in release.split(".") if word.isdigit())
