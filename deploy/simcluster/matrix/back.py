"""A mended node comes back by verification where its rule says so, and by a person where it does not."""

from __future__ import annotations

from deploy.simcluster.matrix.rows import Outcome
from deploy.simcluster.matrix.scenario import Scenario, Turn

IN_SERVICE = Outcome(drained=False, owner="none")


def mended(turn: Turn) -> None:
    """A reset that was needed was done: two clean looks, and the node is resumed."""
    stage, node = turn.stage, turn.node
    stage.inject(node, "gpu_reset_required", gpu=3)
    stage.drained(node)
    stage.host(node).heal()
    turn.counts()
    stage.back(node, timeout=90)


def lost_part(turn: Turn) -> None:
    """A GPU that was lost answers again: it waits for a person, is verified when asked, and comes back."""
    stage, node = turn.stage, turn.node
    stage.inject(node, "gpu_lost", gpu=3)
    stage.drained(node)
    stage.host(node).heal()
    stage.well(node)
    stage.steps(4)
    before = stage.where(node)
    turn.counts()
    stage.ask("drains/resume", nodes=node, verify=True)
    stage.back(node, timeout=90)
    turn.also(lambda: f"before a person asked: {before}")


def flapping(turn: Turn) -> None:
    """The same fault again while the node is on probation: the drain waits for a person, mended or not."""
    stage, node = turn.stage, turn.node
    stage.host(node).nvml.change({"gpu.3.recovery_action": 1})
    stage.drained(node)
    stage.host(node).nvml.change({"gpu.3.recovery_action": 0})
    stage.back(node, timeout=90)
    turn.counts()
    stage.host(node).nvml.change({"gpu.3.recovery_action": 1})
    stage.drained(node)
    stage.host(node).nvml.change({"gpu.3.recovery_action": 0})
    stage.well(node)
    stage.steps(3)
    turn.also(lambda: "held: flapping" if "flapping" in stage.way_out(node) else "not held")


SCENARIOS = (
    Scenario("mended, verified, resumed", IN_SERVICE, mended),
    Scenario(
        "lost part answers again",
        Outcome(drained=False, owner="none", also="before a person asked: drained by ours"),
        lost_part,
    ),
    Scenario("breaks again on probation", Outcome(drained=True, owner="ours", also="held: flapping"), flapping),
)
