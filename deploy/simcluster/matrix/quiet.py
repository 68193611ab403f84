"""What people asked to rest leads to nothing for as long as they said, and is shown all the same."""

from __future__ import annotations

from deploy.simcluster.matrix.rows import Outcome
from deploy.simcluster.matrix.scenario import ONCE, Scenario, Turn

WHY = "played by the matrix"


def paused(turn: Turn) -> None:
    """Hands off a node: its agent lets go of it, jobs start, nothing is drained."""
    stage, node = turn.stage, turn.node
    stage.ask("pauses", nodes=node, seconds=600, reason=WHY)
    stage.wait(lambda: bool(stage.status(node).paused), 30, f"agent of {node} is not told of the pause")
    turn.counts()
    stage.inject(node, "gpu_lost", gpu=3)
    turn.submit()
    turn.also(lambda: "paused" if stage.status(node).paused else "not paused")


def silenced(turn: Turn) -> None:
    """The one check that sees the fault is silenced on the node: shown, and nothing follows."""
    stage, node = turn.stage, turn.node
    stage.ask("silences", check="gpu_remap", nodes=node, seconds=600, reason=WHY)
    stage.wait(lambda: "gpu_remap" in stage.status(node).silenced, 30, f"agent of {node} is not told of the silence")
    turn.counts()
    stage.host(node).nvml.change({"gpu.1.remap.failure": 1})
    stage.finds(node, "gpu_remap_failed")
    turn.submit()
    turn.also(lambda: f"gpu_remap_failed {stage.found(node, 'gpu_remap_failed')}")


def risk(turn: Turn) -> None:
    """A person gives the node back as it is: it works, and says so."""
    stage, node = turn.stage, turn.node
    stage.host(node).nvml.change({"gpu.1.remap.failure": 1})
    stage.drained(node)
    turn.counts()
    stage.ask("risks", nodes=node, seconds=600.0, reason=WHY)
    stage.back(node)
    turn.submit()
    turn.also(lambda: "incident risk_accepted" if "risk_accepted" in stage.incidents(node) else "no incident")


def worked(also: str) -> Outcome:
    """The node stays and its job ran."""
    return Outcome(drained=False, owner="none", job="COMPLETED", also=f"{ONCE}; {also}")


SCENARIOS = (
    Scenario("paused", worked("paused"), paused),
    Scenario("check silenced", worked("gpu_remap_failed fail/node"), silenced),
    Scenario("risk accepted", worked("incident risk_accepted"), risk),
)
