"""Our own trouble and Slurm's: jobs start, nobody is drained for it, and what is due is done afterwards."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from deploy.simcluster.matrix import gate
from deploy.simcluster.matrix.rows import Outcome
from deploy.simcluster.matrix.scenario import NEVER, ONCE, Act, Scenario, Turn, often
from deploy.simcluster.matrix.stage import Stage

STOPPED_SECONDS = 8.0


@contextmanager
def server_away(stage: Stage, turns: Sequence[Turn]) -> Iterator[None]:
    """The central service is killed right after the first node got a new lease, and comes back after the act."""
    node = turns[0].node
    stage.wait(lambda: stage.status(node).uplink.leases == 0, 60, f"lease of {node} does not end")
    stage.wait(lambda: stage.status(node).uplink.leases > 0, 60, f"{node} gets no new lease")
    stage.cluster.kill_server()
    try:
        yield
    finally:
        stage.cluster.start_server()


def sound_node(turn: Turn) -> None:
    """A sound node's jobs start as ever."""
    ended(turn)


def faulty_node(turn: Turn) -> None:
    """No permit and no lease for this fault: the job is admitted, loudly, and the node drained afterwards."""
    stage, node = turn.stage, turn.node
    before = stage.status(node).hooks["admitted_without_permit"]
    stage.host(node).nvml.change({"gpu.1.remap.failure": 1})
    ended(turn)
    turn.also(lambda: loud(turn, before))


def leased(turn: Turn) -> None:
    """A lost GPU, and a lease for it: the job is refused, and the drain has our reason once we are back."""
    stage = turn.stage
    stage.inject(turn.node, "gpu_lost", gpu=1)
    job = turn.submit()
    stage.wait(lambda: "DRAIN" in stage.lab.node_state(turn.node), 45, "the job was not refused")
    stage.job(job, "PENDING")


def lease_expired(turn: Turn) -> None:
    """The server is away until the lease has run out: then nobody is refused, whatever is lost."""
    stage, node = turn.stage, turn.node
    stage.wait(lambda: stage.status(node).uplink.leases == 0, 90, f"{node} still holds its lease")
    before = stage.status(node).hooks["admitted_without_permit"]
    turn.counts()
    stage.inject(node, "gpu_lost", gpu=1)
    ended(turn)
    turn.also(lambda: loud(turn, before))


def ended(turn: Turn) -> None:
    """Submit, and wait for the job's end while the trouble lasts."""
    turn.stage.job(turn.submit(), "COMPLETED", timeout=60)


def loud(turn: Turn, before: int) -> str:
    """Whether the agent counted that it admitted a job which it wanted to refuse."""
    count = turn.stage.status(turn.node).hooks["admitted_without_permit"] - before
    return f"admitted without permit {often(count)}"


def slow_slurmctld(turn: Turn) -> None:
    """slurmctld does not move for a while, when the drain is due."""
    stage = turn.stage
    pid = stage.lab.pid("slurmctld")
    os.kill(pid, signal.SIGSTOP)
    try:
        turn.counts()
        stage.inject(turn.node, "gpu_lost", gpu=3)
        stage.known(turn.node)
        stage.ended.wait(STOPPED_SECONDS)
    finally:
        os.kill(pid, signal.SIGCONT)


def slurmctld_restart(turn: Turn) -> None:
    """Slurm's controller goes and comes back while the drain is on its way."""
    turn.stage.inject(turn.node, "gpu_lost", gpu=3)
    turn.stage.lab.restart_slurmctld()


DRAINED = Outcome(drained=True, owner="ours")
LATER = Outcome(drained=True, owner="ours", job="COMPLETED", also=f"{ONCE}; admitted without permit once")
AWAY = (
    Scenario("faulty node, lease", Outcome(drained=True, owner="ours", job="PENDING", also=NEVER), leased),
    Scenario("faulty node, lease expired", LATER, lease_expired),
    Scenario("faulty node, no lease for this fault", LATER, faulty_node),
    Scenario("sound node", Outcome(drained=False, owner="none", job="COMPLETED", also=ONCE), sound_node),
    *gate.AWAY,
)
ACTS = (
    Act(AWAY, server_away, "server killed meanwhile"),
    Act((Scenario("drain due", DRAINED, slow_slurmctld),), settings=f"slurmctld stopped for {STOPPED_SECONDS:g} s"),
    Act((Scenario("drain under way", DRAINED, slurmctld_restart),), settings="slurmctld restarted"),
)
