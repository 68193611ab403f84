"""On real Slurm a paused node runs jobs, is neither refused nor drained, and is judged again when it is ready."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.simcluster.cluster import Options
from tests.flow.flow import OURS, WIDE_GUARD, Flow, running

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def flow() -> Iterator[Flow]:
    with running(Options(nodes=2, interval=2.0, server=WIDE_GUARD)) as up:
        yield up


def test_hands_off_and_back(flow: Flow) -> None:
    rows = flow.cluster.post("pauses", {"nodes": "n1", "seconds": 600, "reason": "driver update"})
    assert rows
    flow.wait(lambda: bool(flow.status("n1").paused), 20, "the agent is not told")
    flow.cluster.hosts["n1"].inject("gpu_lost", gpu=3)
    job = flow.lab.sbatch("--nodelist=n1", "--gpus=1", script="exit 0")
    flow.lab.wait_job(job, "COMPLETED")
    flow.steps(3)
    assert (flow.lab.node_reason("n1"), flow.status("n1").hooks["refused"]) == ("", 0)
    flow.cluster.post("pauses/end", {"nodes": "n1"})
    flow.wait(lambda: flow.lab.node_reason("n1").startswith(OURS + "gpu_lost"), 40, "the fault does not count again")
    assert flow.status("n1").paused == ""
