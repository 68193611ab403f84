"""What can happen to a node and its job, each played by itself and with the end that it must have."""

from __future__ import annotations

from dataclasses import dataclass

from deploy.simcluster.matrix import FOREIGN, Matrix, Outcome, Scenario

DRAINED = Outcome(drained=True, owner="ours", job="-")
REQUEUED = Outcome(drained=True, owner="ours", job="PENDING")
CANCELLED = Outcome(drained=True, owner="ours", job="CANCELLED")
RAN = Outcome(drained=False, owner="none", job="COMPLETED")
RAN_THEN_DRAINED = Outcome(drained=True, owner="ours", job="COMPLETED")


def idle_fault(matrix: Matrix, node: str) -> None:
    """Found between jobs."""
    matrix.inject(node, "gpu_lost", gpu=3)


@dataclass(frozen=True, slots=True)
class Refused:
    """A batch job whose own Prolog finds the fault; pinned to the node, so that it waits for it afterwards."""

    fault: str
    options: tuple[str, ...] = ()

    def __call__(self, matrix: Matrix, node: str) -> int:
        matrix.between_looks(node)
        matrix.inject(node, self.fault, gpu=1)
        return matrix.batch(node, *self.options)


def remap_fails(matrix: Matrix, node: str) -> int:
    """A fault for which the pack refuses a job, and yet no device is lost."""
    matrix.between_looks(node)
    matrix.cluster.hosts[node].nvml.change({"gpu.1.remap.failure": 1})
    return matrix.batch(node, "--no-requeue")


@dataclass(frozen=True, slots=True)
class Interactive:
    """A command whose user waits for it."""

    command: str

    def __call__(self, matrix: Matrix, node: str) -> int:
        matrix.between_looks(node)
        matrix.inject(node, "gpu_lost", gpu=1)
        return matrix.interactive(self.command, node)


def administrators_drain(matrix: Matrix, node: str) -> None:
    """Somebody else's reason stands there when the fault comes."""
    matrix.scontrol("update", f"nodename={node}", "state=drain", f"reason={FOREIGN}")
    matrix.inject(node, "gpu_lost", gpu=3)


def maintenance(matrix: Matrix, node: str) -> None:
    """Hands off while the node is in a maintenance reservation."""
    words = ("create", "reservation", f"reservationname=m-{node}", "starttime=now", "duration=60")
    matrix.scontrol(*words, "users=root", "flags=maint,ignore_jobs", f"nodes={node}")
    matrix.wait(lambda: "MAINT" in matrix.cluster.lab.node_state(node), 30, f"{node} is not in maintenance")
    matrix.inject(node, "gpu_lost", gpu=3)


def foreign_resume(matrix: Matrix, node: str) -> None:
    """Given back by hand while the GPU is still lost: it is drained again."""
    matrix.inject(node, "gpu_lost", gpu=3)
    lab = matrix.cluster.lab
    matrix.wait(lambda: "DRAIN" in lab.node_state(node), 40, f"{node} was not drained")
    first = lab.node_reason(node)
    matrix.scontrol("update", f"nodename={node}", "state=resume")
    matrix.wait(lambda: lab.node_reason(node) != first, 30, f"{node} was not touched after the resume")


def agent_away(matrix: Matrix, node: str) -> int:
    """Without an agent the hook lets the job through."""
    matrix.cluster.kill_agent(node)
    return matrix.batch(node)


def server_away(matrix: Matrix, node: str) -> int:
    """Without the server a sound node's jobs start as ever."""
    matrix.cluster.kill_server()
    try:
        job = matrix.batch(node)
        matrix.cluster.lab.wait_job(job, "COMPLETED", timeout=40)
    finally:
        matrix.cluster.start_server()
    return job


def slurmctld_restart(matrix: Matrix, node: str) -> None:
    """Slurm's controller goes and comes back while the drain is on its way."""
    matrix.inject(node, "gpu_lost", gpu=3)
    matrix.cluster.lab.restart_slurmctld()


SCENARIOS = (
    Scenario("idle fault", DRAINED, idle_fault),
    Scenario("refused batch", REQUEUED, Refused("gpu_reset_required")),
    Scenario("refused array task", REQUEUED, Refused("gpu_reset_required", ("--array=0-0",))),
    Scenario("refused --no-requeue, device lost", CANCELLED, Refused("gpu_lost", ("--no-requeue",))),
    Scenario("--no-requeue, no device lost", RAN_THEN_DRAINED, remap_fails),
    Scenario("refused srun", CANCELLED, Interactive("srun")),
    Scenario("refused salloc", CANCELLED, Interactive("salloc")),
    Scenario("administrator's drain", Outcome(drained=True, owner="other", job="-"), administrators_drain),
    Scenario("maintenance", Outcome(drained=False, owner="none", job="-"), maintenance),
    Scenario("foreign resume", DRAINED, foreign_resume),
    Scenario("slurmctld restart during drain", DRAINED, slurmctld_restart),
    Scenario("agent away", RAN, agent_away),
    Scenario("server away", RAN, server_away),
)
