"""`python -m benchmarks.storm` has every node of a large cluster fail at once and counts what it costs slurmctld.

Slurm is real, a slurmd for every node included, and so is the central service with its shipped guard and policy; one
driver speaks for all agents in their wire format. What slurmctld was asked stands in its own statistics (`sdiag`).
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable

import click

from checks.judge.guard import GuardLimits
from deploy.simcluster.storm import Cost, Storm, alike, mixed, storm, well


def play(made: Storm, seconds: float, told: Callable[[str], None]) -> bool:
    """Both storms, one after the other; whether no more was drained than the guard allows."""
    limits, nodes = GuardLimits(), len(made.names)
    most = min(limits.drained(nodes), limits.hourly(nodes))
    alone = min(most, limits.alike(nodes))  # the first few to report cannot be told from nodes that fail alone
    told(_line("calm", made.watch(20.0)))
    cost, granted = made.break_out(alike, seconds)
    drained = len(made.drained())
    told(f"{_line('one fault everywhere', cost)}; permits {granted}, drained {drained}, at most {alone}; {_said(made)}")
    passed = drained <= alone
    made.report(well)
    kinds = max(1, nodes // 40)
    cost, granted = made.break_out(mixed(kinds), seconds)
    drained = len(made.drained())
    told(f"{_line(f'{kinds} faults mixed', cost)}; permits {granted}, drained {drained}, at most {most}; {_said(made)}")
    return passed and 0 < drained <= most


def _line(what: str, cost: Cost) -> str:
    kinds = ", ".join(f"{number} {kind}" for kind, number in cost.calls.most_common())
    rate = f"{cost.per_second:.1f} requests/s over {cost.seconds:.0f} s, busiest second {cost.busiest:.0f}"
    return f"{what}: {rate} ({kinds})"


def _said(made: Storm) -> str:
    return "incidents " + ", ".join(f"{number} {code}" for code, number in sorted(made.incidents().items()))


@click.command(help="Have every node fail at once and count what it costs slurmctld; needs root and Slurm.")
@click.option("--nodes", default=1000, show_default=True, type=click.IntRange(4, 4000))
@click.option("--seconds", default=120.0, show_default=True, help="How long each of the two storms is watched.")
def main(nodes: int, seconds: float) -> None:
    """Run and print."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    begun = time.monotonic()

    def told(text: str) -> None:
        print(f"[{time.monotonic() - begun:5.0f} s] {text}", flush=True)

    with storm(nodes, told=told) as made:
        told(f"{nodes} nodes idle, all reported well")
        passed = play(made, seconds, told)
    told(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end: {'passed' if passed else 'FAILED'}")
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
