"""Sixty-four warm agents on one machine answer all hooks of one job within two seconds."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from benchmarks.ground import Ground, NotReady, Service, job_env
from benchmarks.measure import Spread, spawn
from benchmarks.table import Line

LIMIT_S = 2.0
TOGETHER = 8
# Whether Slurm lets a gate be comes with a poll's answer: short polls, so that the agents know it soon.
POLL_WAIT = 5.0
_jobs = count(500_000)


def start(ground: Ground, service: Service, nodes: int) -> list[str]:
    """Start the agents, a few at once, until all are warm; all look at one simulated tree."""
    brief = replace(service, poll_wait=POLL_WAIT)
    names = [f"n{number}" for number in range(1, nodes + 1)]
    for at in range(0, nodes, TOGETHER):
        some = names[at : at + TOGETHER]
        for name in some:
            ground.agent(name, service=brief)
        ground.wait_warm(some)
    return names


def measure(ground: Ground, names: Sequence[str], rounds: int, *, gate: bool) -> list[Line]:
    """The lines about one job on all agents at once."""
    apart = [_fire(ground, names, whole=False) for _ in range(rounds)]
    lines = [_line(f"{len(names)} agents, {len(names)} jobs of one node at once, no gate", apart, len(names))]
    if not gate:
        return [*lines, Line(part="job", what="one job with its gate", measured="not measured: no Slurm here")]
    ground.wait_for(lambda: all(_gated(ground, n) for n in names), 60, lambda: "agents do not know that a gate is due")
    before = [_opened(ground, names[0])]
    together = [_fire(ground, names, whole=True) for _ in range(rounds)]
    if _opened(ground, names[0]) - before[0] != rounds:
        raise NotReady(f"{names[0]} opened {_opened(ground, names[0]) - before[0]} of {rounds} gates")
    return [*lines, _line(f"{len(names)} agents, one job of {len(names)} nodes, gate held", together, len(names))]


def _gated(ground: Ground, node: str) -> bool:
    status = ground.status(node)
    limits = status.uplink.limits if status else None
    return limits is not None and limits.gate_possible


def _opened(ground: Ground, node: str) -> int:
    status = ground.status(node)
    return status.gate["opened"] if status else -1


def _fire(ground: Ground, names: Sequence[str], *, whole: bool) -> list[float]:
    """Start every node's hook at once; seconds from the first start to each one's end."""
    job, running, ended = next(_jobs), set(), []
    envs = []
    for name in names:
        if whole:
            envs.append(job_env(name, job, nodelist=f"n[1-{len(names)}]", nodes=len(names), gpus=True))
        else:
            envs.append(job_env(name, next(_jobs), gpus=True))
    begun = time.monotonic()
    for env in envs:
        running.add(spawn((ground.prolog,), env))
    while running:
        pid, status = os.waitpid(-1, 0)
        if pid in running:
            running.discard(pid)
            ended.append(time.monotonic() - begun)
            if os.waitstatus_to_exitcode(status) != 0:
                raise NotReady(f"a hook of job {job} ended with {os.waitstatus_to_exitcode(status)}")
    return ended


def _line(what: str, rounds: Sequence[Sequence[float]], nodes: int) -> Line:
    spread = Spread.of([seconds * 1e3 for one in rounds for seconds in one])
    worst = spread.most / 1e3
    return Line(
        part="job",
        what=what,
        measured=f"all in {worst:.3f} s (p50 {spread.median / 1e3:.3f}, p99 {spread.p99 / 1e3:.3f})",
        beside=f"{spread.most / nodes:.1f} ms a node",
        ratio=f"{worst / LIMIT_S:.2f} of target",
        target=f"<= {LIMIT_S:g} s",
        met=worst <= LIMIT_S,
        n=spread.n,
        values={"max_s": worst, "p50_s": spread.median / 1e3, "p99_s": spread.p99 / 1e3},
    )
