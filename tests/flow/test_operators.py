"""On real Slurm a list is drained and undone, our words stand beside others', and what Slurm gave up comes back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.simcluster.cluster import Options
from slurm.commands import Commands
from slurm.exclusions import Exclusion
from tests.flow.flow import WIDE_GUARD, Flow, running

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

SETTINGS = 'annotate = ["comment"]\nresume_kill_task_failed = true\n'
JOB = b"SLURM_JOB_ID=4242\0SLURM_STEP_ID=0"


@pytest.fixture(scope="module")
def flow() -> Iterator[Flow]:
    """Slurm gives a job up on n3 at once: until nothing of it was seen for a while, the other tests run."""
    with running(Options(nodes=3, interval=2.0, server=SETTINGS + WIDE_GUARD)) as up:
        drain(up, "n3", "Kill task failed")
        assert up.says("n3", "unkillable", JOB)[0] == 0
        yield up


def drain(flow: Flow, node: str, reason: str) -> None:
    flow.lab.run(["scontrol", "update", f"nodename={node}", "state=drain", f"reason={reason}"])


def comment(flow: Flow, node: str) -> str:
    text = flow.lab.run(["scontrol", "show", "node", node]).stdout
    return next((line.strip()[8:] for line in text.splitlines() if line.strip().startswith("Comment=")), "")


def test_a_list_is_undone_only_where_nobody_touched_it(flow: Flow) -> None:
    made = flow.cluster.post("drains", {"nodes": "n[1-2]", "reason": "fan"})
    assert isinstance(made, dict) and [r["outcome"] for r in made["items"]] == ["done", "done"]
    drain(flow, "n2", "cable (bob)")
    undone = flow.cluster.post("operations/undo", {"operation": made["operation"]})
    assert isinstance(undone, dict)
    assert [(r["node"], r["outcome"]) for r in undone["items"]] == [("n1", "done"), ("n2", "refused")]
    assert "DRAIN" not in flow.lab.node_state("n1")
    assert flow.lab.node_reason("n2").startswith("cable (bob)")


def test_our_finding_stands_beside_the_reason_and_goes(flow: Flow) -> None:
    flow.lab.run(["scontrol", "update", "nodename=n2", "comment=ticket 12"])
    flow.cluster.hosts["n2"].inject("gpu_reset_required", gpu=3)
    flow.wait(lambda: "[nodevet finding: gpu_" in comment(flow, "n2"), 40, lambda: comment(flow, "n2"))
    assert comment(flow, "n2").startswith("ticket 12 [") and flow.lab.node_reason("n2").startswith("cable (bob)")
    beside = next(d.beside for d in flow.drains() if d.node == "n2")
    assert beside and beside[0].startswith("we find gpu_")
    flow.cluster.hosts["n2"].heal()
    flow.wait(lambda: not flow.ill()["n2"], 60, lambda: f"n2 does not get well: {flow.ill()}")
    flow.wait(lambda: comment(flow, "n2") == "ticket 12", 60, lambda: comment(flow, "n2"))


def test_slurm_tells_what_jobs_exclude(flow: Flow) -> None:
    job = flow.lab.sbatch("--hold", "--exclude=n[1-2]", script="exit 0")
    try:
        backend = Commands(conf=flow.lab.conf)
        assert backend.exclusions() == [Exclusion(job, 0, ("n1", "n2"))]
    finally:
        flow.lab.run(["scancel", str(job)])


def test_a_node_that_slurm_gave_up_comes_back_once_nothing_is_left(flow: Flow) -> None:
    """E15: by opt-in, after three looks at what is left and clean looks at the node."""
    flow.wait(lambda: "DRAIN" not in flow.lab.node_state("n3"), 120, lambda: str(flow.drains()))
    flow.wait(lambda: bool(flow.audit("n3", "resume kill failed")), 30, "it is not in the audit")
    (done,) = flow.audit("n3", "resume kill failed")
    assert "nothing left of job 4242" in done.detail
