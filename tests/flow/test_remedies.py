"""On real Slurm a GPU is reset and a node rebooted once they are drained, and both come back only when verified."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from deploy.simcluster.cluster import Options
from slurm.reason import parse
from tests.flow.flow import OURS, WIDE_GUARD, Flow, running

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
ON = (
    '[remedy]\nmode = "on"\nat_once = 2\n[remedy.reset_gpu]\nmode = "on"\n[remedy.reboot]\nmode = "on"\n'
    '[remedy.run.note]\nmode = "dry_run"\n'
)
# A site that tries a boot where a GPU has gone, and takes a clean look for an answer.
POLICY = 'version = "flow"\n' + "".join(
    f'[codes.{code}]\nremedy = ["reboot"]\nresume = "verify"\n' for code in ("gpu_lost", "gpu_count_low")
)


@pytest.fixture(scope="module")
def flow() -> Iterator[Flow]:
    slurm = "RebootProgram=/bin/true\nResumeTimeout=300\n"
    options = Options(nodes=2, interval=2.0, server=WIDE_GUARD + ON, policy=POLICY, slurm_conf=slurm)
    with running(options, patient=True) as up:
        yield up


def remedies(flow: Flow, node: str) -> list[tuple[str, str]]:
    """Action and state of each remedy of a node, the oldest first."""
    seen: Any = flow.cluster.get("remedies", node=node)
    return [(r["action"], r["state"]) for r in reversed(seen["items"])]


def in_service(flow: Flow, node: str) -> bool:
    return flow.lab.states()[node] == "idle"


def test_a_reset_and_a_reboot_bring_their_nodes_back(flow: Flow) -> None:
    flow.cluster.hosts["n1"].inject("gpu_reset_required", gpu=3)
    flow.cluster.hosts["n2"].inject("gpu_lost", gpu=5)
    flow.wait(lambda: "REBOOT_ISSUED" in flow.lab.node_state("n2"), 90, lambda: f"no reboot: {remedies(flow, 'n2')}")
    reason = flow.lab.node_reason("n2").rpartition(" [")[0]
    ours = parse(reason)
    assert ours is not None and reason.startswith(OURS + "gpu_lost")
    flow.wait(lambda: remedies(flow, "n1") == [("reset-gpu", "done")], 90, lambda: f"{remedies(flow, 'n1')}")
    assert flow.cluster.hosts["n1"].faults() == []
    # The boot itself: a new boot id, a new agent, and a slurmd that says so.
    flow.cluster.kill_agent("n2")
    flow.lab.kill_slurmd("n2")
    flow.cluster.hosts["n2"].heal()
    flow.cluster.hosts["n2"].reboot()
    flow.lab.start_slurmd("n2", booted=True)
    flow.wait(lambda: "REBOOT" not in flow.lab.node_state("n2"), 60, lambda: flow.lab.node_state("n2"))
    assert "DRAIN" in flow.lab.node_state("n2"), "it must stay drained until it is verified"
    after = parse(flow.lab.node_reason("n2").rpartition(" [")[0])
    assert after is not None and after.token == ours.token
    flow.cluster.start_agent("n2")
    flow.wait(lambda: remedies(flow, "n2") == [("reboot", "done")], 90, lambda: f"{remedies(flow, 'n2')}")
    for node in ("n1", "n2"):
        flow.wait(lambda n=node: in_service(flow, n), 90, lambda n=node: f"{n}: {flow.lab.node_state(n)}")  # type: ignore[misc]
    assert (remedies(flow, "n1"), remedies(flow, "n2")) == ([("reset-gpu", "done")], [("reboot", "done")])
    job = flow.lab.sbatch("--nodes=2", "--gpus-per-node=1", script="exit 0")
    flow.lab.wait_job(job, "COMPLETED")


def test_a_person_is_refused_on_a_node_in_service(flow: Flow) -> None:
    made: Any = flow.cluster.post("remedies", {"node": "n1", "action": "reset-gpu"})
    assert made["outcome"] == "refused" and "drained to the end" in made["why"]
