"""No script runs before every node of its job has been vetted, and the gate itself never keeps a job for ever."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from deploy.simcluster.cluster import Options
from tests.flow.flow import OURS, WIDE_GUARD, Flow, running

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def up() -> Iterator[Flow]:
    with running(Options(nodes=4, interval=60.0, prolog_age=1.0, server=WIDE_GUARD)) as flow:
        yield flow


@pytest.fixture
def flow(up: Flow) -> Flow:
    up.calm()
    return up


def three_nodes(flow: Flow, *options: str) -> int:
    """A job on n1, n2 and n3 whose script leaves its attempt and node in a file."""
    script = "echo $SLURM_RESTART_COUNT $SLURMD_NODENAME >> ran.$SLURM_JOB_ID"
    return flow.lab.sbatch("-w", "n[1-3]", "-N3", "--gres=gpu:2", *options, script=script)


def ran(flow: Flow, job: int) -> str:
    """What the script has written, once for each start."""
    path = flow.lab.base / "jobs" / f"ran.{job}"
    return path.read_text() if path.exists() else ""


def test_a_fault_of_the_last_node_keeps_the_script_from_running_anywhere(flow: Flow) -> None:
    flow.breaks("n3", "gpu_reset_required", gpu=2)
    job = three_nodes(flow)
    reason = flow.drained("n3")
    flow.lab.wait_job(job, "PENDING")
    assert reason.startswith(f"{OURS}gpu_reset_required ")
    assert ran(flow, job) == ""
    assert flow.restarts(job) == 1
    assert flow.allowed(job, 3) == {"n1": "admit", "n2": "admit", "n3": "refuse"}
    assert set(flow.out_of_service()) == {"n3"}
    assert flow.status("n1").gate["refused_elsewhere"] == 1
    flow.steps(3)
    assert ran(flow, job) == "" and set(flow.out_of_service()) == {"n3"}


def test_healthy_nodes_open_the_gate_at_once(flow: Flow) -> None:
    before = flow.status("n1").gate
    job = three_nodes(flow)
    flow.lab.wait_job(job, "COMPLETED")
    reports = flow.answers(job, 3)
    after = flow.status("n1").gate
    assert ran(flow, job).split() == ["n1"]
    assert (after["opened"], after["expired"]) == (before["opened"] + 1, before["expired"])
    assert {n: r.decision.allowed for n, r in reports.items() if r.decision} == dict.fromkeys(reports, "admit")


def test_a_node_whose_agent_is_dead_is_named_absent_and_keeps_nobody(flow: Flow) -> None:
    flow.cluster.kill_agent("n3")
    try:
        before = flow.status("n1").gate
        counted = gate_counters(flow)
        job = three_nodes(flow)
        flow.lab.wait_job(job, "COMPLETED")
        assert flow.allowed(job, 2) == {"n1": "admit", "n2": "admit"}
        after = flow.status("n1").gate
        assert after["absent"] == before["absent"] + 1
        assert gate_counters(flow)["gate_absent_total"] == counted["gate_absent_total"] + 1
        assert flow.out_of_service() == {}
    finally:
        flow.cluster.start_agent("n3")
    flow.wait(lambda: flow.status("n3").marks > 0, 30, "the agent has not found what its hook left")


def test_a_job_starts_when_nobody_keeps_the_gate(flow: Flow) -> None:
    flow.cluster.kill_server()
    try:
        began = time.monotonic()
        job = three_nodes(flow)
        flow.lab.wait_job(job, "COMPLETED", timeout=20)
        # The whole budget of a hook in this lab: the smallest limit of Slurm less its margin.
        assert time.monotonic() - began < 12
        assert flow.status("n1").gate["expired"] >= 1
    finally:
        flow.cluster.start_server()
    assert flow.allowed(job, 3) == dict.fromkeys(("n1", "n2", "n3"), "admit")
    flow.wait(lambda: flow.status("n1").uplink.state == "connected", 30, "agent is not connected")


def gate_counters(flow: Flow) -> dict[str, float]:
    """What the central service counts for `nodevet coverage`."""
    coverage = flow.cluster.get("coverage")
    assert isinstance(coverage, dict)
    return {k: float(v) for k, v in coverage["counters"].items() if k.startswith("gate_")}
