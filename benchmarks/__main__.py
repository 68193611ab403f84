"""`python -m benchmarks` measures everything in one run and prints one table."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import click
import msgspec

from benchmarks import agent, checks, hook, ingest, job, nhc
from benchmarks.ground import Ground, NotReady, ground
from benchmarks.server import slurm, start_server
from benchmarks.table import Line, render

PARTS = ("checks", "hook", "agent", "job", "nhc", "server")


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured; ``idle`` in seconds."""

    rounds: int
    idle: float
    nodes: int
    jobs: int
    batches: int
    commands: int


FULL = Size(rounds=200, idle=60.0, nodes=64, jobs=5, batches=20, commands=15)
QUICK = Size(rounds=30, idle=20.0, nodes=16, jobs=2, batches=5, commands=5)


def lines(ground: Ground, size: Size, only: tuple[str, ...]) -> Iterator[list[Line]]:
    """Every part that is wanted, on one ground; the idle agent rests while the hook is measured."""
    wanted = only or PARTS
    if "checks" in wanted:
        _say("checks: the complete passive set")
        yield checks.measure(ground, size.commands)
    if set(wanted) == {"checks"}:
        return
    with slurm(ground, size.nodes) as conf:
        _say("central service", "with a slurmctld" if conf else "without Slurm")
        service = start_server(ground, conf)
        if "server" in wanted:
            _say("server: ingest")
            yield ingest.measure(ground, service, size.batches)
        resting = None
        if "agent" in wanted:
            _say(f"agent: at rest for {size.idle:g} s from here on")
            resting = agent.begin(ground, service)
        if "hook" in wanted:
            _say(f"hook: {size.rounds} rounds")
            yield hook.measure(ground, service, size.rounds)
        if resting is not None:
            yield agent.finish(ground, resting, size.idle)
        if "nhc" in wanted:
            yield nhc.measure(ground, size.rounds)
        if "job" in wanted:
            _say(f"job: starting {size.nodes} agents")
            names = job.start(ground, service, size.nodes)
            _say(f"job: {size.jobs} rounds")
            yield job.measure(ground, names, size.jobs, gate=conf is not None)


def _say(*words: str) -> None:
    print(f"[{time.monotonic() - _BEGUN:5.1f} s] {' '.join(words)}", file=sys.stderr, flush=True)


_BEGUN = time.monotonic()


@click.command(help="Measure what Nodevet costs beside what it is compared with.")
@click.option("--quick", is_flag=True, help="Fewer rounds, 16 agents, 20 s of rest: under a minute.")
@click.option("--only", multiple=True, type=click.Choice(PARTS), help="This part only; may be given several times.")
@click.option("--realtime", is_flag=True, help="Go before everything else on a busy machine (SCHED_RR; needs root).")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the lines to this file as well.")
def main(quick: bool, only: tuple[str, ...], realtime: bool, json_file: Path | None) -> None:
    """Run and print."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    if realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    size = QUICK if quick else FULL
    found: list[Line] = []
    failure = ""
    try:
        with ground(size.nodes) as made:
            for some in lines(made, size, only):
                found += some
    except NotReady as error:
        failure = str(error)
    found.sort(key=lambda line: PARTS.index(line.part))
    print(render(found))
    print(f"\n{_machine(realtime)}; took {time.monotonic() - _BEGUN:.0f} s. SIM: simulated hardware below real parts.")
    if json_file is not None:
        json_file.write_bytes(msgspec.json.format(msgspec.json.encode(_document(found, size, failure))) + b"\n")
    if failure:
        raise click.ClickException(failure)


def _machine(realtime: bool) -> str:
    load, first = os.getloadavg()[0], ", measured before everything else (SCHED_RR)" if realtime else ""
    return f"{os.cpu_count()} cores, load {load:.1f} at the end{first}"


def _document(found: list[Line], size: Size, failure: str) -> dict[str, object]:
    return {
        "at": datetime.now(timezone.utc),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "rounds": size.rounds,
        "nodes": size.nodes,
        "failure": failure,
        "lines": found,
    }


if __name__ == "__main__":
    main()
