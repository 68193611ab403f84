"""What breaks or only looks broken on a node between jobs: the node's fault drains it, all else does not."""

from __future__ import annotations

from deploy.simcluster.matrix.rows import Outcome
from deploy.simcluster.matrix.scenario import ONCE, Scenario, Turn

DRAINED = Outcome(drained=True, owner="ours")


def ran_and_found(found: str) -> Outcome:
    """The node stays, its job ran, and the finding is what it is."""
    return Outcome(drained=False, owner="none", job="COMPLETED", also=f"{ONCE}; {found}")


def idle_fault(turn: Turn) -> None:
    """Found between jobs."""
    turn.stage.inject(turn.node, "gpu_lost", gpu=3)


def hung_driver(turn: Turn) -> None:
    """Calls into the driver do not come back: nobody's fault at the first look, the node's from the second on."""
    turn.stage.inject(turn.node, "nvml_hang")
    turn.also(lambda: "gpu_driver_hung" if "gpu_driver_hung" in turn.stage.lab.node_reason(turn.node) else "another")


def hung_mount(turn: Turn) -> None:
    """A file system that jobs need does not answer: shared, so it never drains."""
    stage, node = turn.stage, turn.node
    stage.inject(node, "hung_mount", path="/scratch")
    lines = '[checks.mount]\npaths = ["/scratch"]\ninterval = 3.0\ntimeout = 1.0\n'
    stage.cluster.restart_agent(node, lines)
    stage.finds(node, "mount_hung")
    turn.submit()
    turn.also(lambda: f"mount_hung {stage.found(node, 'mount_hung')}")


def forged_xid(turn: Turn) -> None:
    """A user's line in the kernel log, and bytes that no kernel writes."""
    stage, host = turn.stage, turn.stage.host(turn.node)
    address = host.board.gpu_bdf(2).rpartition(".")[0]
    host.kernel_says(f"NVRM: Xid (PCI:{address}): 79, pid=1, name=x, GPU has fallen off the bus.", facility=1)
    with host.kmsg.open("ab") as log:
        log.write(b"\xff\xfe\x00garbage\n6,notanumber,1,-;NVRM: Xid (PCI:0000:4c:00): 79\n" + b"A" * 20_000 + b"\n")
    turn.submit()
    turn.also(lambda: f"gpu_lost {stage.found(turn.node, 'gpu_lost')}")


def users_xid(turn: Turn) -> None:
    """An Xid that the user's own program causes is the job's, not the node's."""
    stage = turn.stage
    stage.inject(turn.node, "xid", xid=31, gpu=2, pid=4242)
    stage.finds(turn.node, "gpu_xid_job")
    turn.submit()
    turn.also(lambda: f"gpu_xid_job {stage.found(turn.node, 'gpu_xid_job')}")


def clock_skew(turn: Turn) -> None:
    """The clock is five minutes off: configuration, so it never drains."""
    stage = turn.stage
    stage.inject(turn.node, "clock_skew", seconds=300.0)
    stage.finds(turn.node, "clock_off")
    turn.submit()
    turn.also(lambda: f"clock_off {stage.found(turn.node, 'clock_off')}")


def full_state(turn: Turn) -> None:
    """Our own disk is full: loud, and no answer changes."""
    stage, node = turn.stage, turn.node
    state = stage.cluster.base / "agents" / node / "state"
    stage.cluster.restart_agent(node, between=lambda: stage.small_disk(state))
    stage.finds(node, "state_dir_failed")
    turn.submit()
    turn.also(lambda: f"state_dir_failed {stage.found(node, 'state_dir_failed')}")


def agent_away(turn: Turn) -> None:
    """Without an agent the hook lets the job through."""
    turn.stage.cluster.kill_agent(turn.node)
    turn.submit()


SCENARIOS = (
    Scenario("GPU lost", DRAINED, idle_fault),
    Scenario("driver hangs", Outcome(drained=True, owner="ours", also="gpu_driver_hung"), hung_driver),
    Scenario("mount hangs", ran_and_found("mount_hung fail/shared"), hung_mount),
    Scenario("Xid 79 forged by a user", ran_and_found("gpu_lost absent"), forged_xid),
    Scenario("Xid 31 of a user's program", ran_and_found("gpu_xid_job warn/job"), users_xid),
    Scenario("clock 300 s off", ran_and_found("clock_off fail/config"), clock_skew),
    Scenario("agent's disk full", ran_and_found("state_dir_failed unknown/self"), full_state),
    Scenario("agent away", Outcome(drained=False, owner="none", job="COMPLETED", also=ONCE), agent_away),
)
