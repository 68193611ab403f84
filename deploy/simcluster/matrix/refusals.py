"""A job whose own Prolog finds the fault is refused, and each kind of job fares as Slurm has it."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.simcluster.matrix.rows import Outcome
from deploy.simcluster.matrix.scenario import NEVER, ONCE, Scenario, Turn

REQUEUED = Outcome(drained=True, owner="ours", job="PENDING", also=NEVER)
CANCELLED = Outcome(drained=True, owner="ours", job="CANCELLED", also=NEVER)
GONE = Outcome(drained=True, owner="ours", job="CANCELLED")


@dataclass(frozen=True, slots=True)
class Refused:
    """A batch job whose own Prolog finds the fault; pinned to the node, so that it waits for it afterwards."""

    fault: str
    options: tuple[str, ...] = ()

    def __call__(self, turn: Turn) -> None:
        turn.breaks(turn.node, self.fault, gpu=1)
        turn.submit(*self.options)


def remap_fails(turn: Turn) -> None:
    """A fault for which the pack refuses a job, and yet no device is lost."""
    turn.stage.between_looks(turn.node)
    turn.counts()
    turn.stage.host(turn.node).nvml.change({"gpu.1.remap.failure": 1})
    turn.submit("--no-requeue")


@dataclass(frozen=True, slots=True)
class Interactive:
    """A command whose user waits for it."""

    command: str

    def __call__(self, turn: Turn) -> None:
        turn.breaks(turn.nodes[-1], "gpu_lost", gpu=1)
        turn.judged = turn.nodes[-1]
        turn.job = turn.stage.interactive(self.command, *turn.nodes)
        if len(turn.nodes) > 1:
            turn.also(lambda: f"first node {turn.stage.where(turn.node)}")


OTHER_KEPT = Outcome(drained=True, owner="ours", job="CANCELLED", also="first node in service")
SCENARIOS = (
    Scenario("batch", REQUEUED, Refused("gpu_reset_required")),
    Scenario("array task", REQUEUED, Refused("gpu_reset_required", ("--array=0-0",))),
    Scenario("--no-requeue, device lost", CANCELLED, Refused("gpu_lost", ("--no-requeue",))),
    Scenario(
        "--no-requeue, no device lost",
        Outcome(drained=True, owner="ours", job="COMPLETED", also=ONCE),
        remap_fails,
    ),
    Scenario("srun", GONE, Interactive("srun")),
    Scenario("salloc", GONE, Interactive("salloc")),
    Scenario("srun on two nodes, fault on the second", OTHER_KEPT, Interactive("srun"), nodes=2),
    Scenario("salloc on two nodes, fault on the second", OTHER_KEPT, Interactive("salloc"), nodes=2),
)
