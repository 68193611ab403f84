"""What a refusal costs each kind of job is what Slurm makes of it, and nobody is refused who would lose more by it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.simcluster.cluster import Options
from tests.flow.flow import OURS, WIDE_GUARD, Flow, running

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def up() -> Iterator[Flow]:
    with running(Options(nodes=3, interval=60.0, prolog_age=1.0, server=WIDE_GUARD)) as flow:
        yield flow


@pytest.fixture
def flow(up: Flow) -> Flow:
    up.calm()
    return up


def remap_fails(flow: Flow, node: str) -> None:
    """A fault for which the pack refuses a job, and yet no device is lost; the kernel has not a word about it."""
    flow.between_looks(node)
    flow.cluster.hosts[node].nvml.change({"gpu.1.remap.failure": 1})


def test_a_refused_batch_job_restarts_on_another_node(flow: Flow) -> None:
    flow.breaks("n1", "gpu_reset_required", gpu=1)
    job = flow.lab.sbatch("-N1", "--gres=gpu:8", script="echo $SLURMD_NODENAME > ran.$SLURM_JOB_ID")
    reason = flow.drained("n1")
    flow.lab.wait_job(job, "COMPLETED", timeout=60)
    assert reason.startswith(OURS) and "Prolog error" not in reason
    assert flow.restarts(job) == 1
    assert flow.allowed(job, 1, restart=0) == {"n1": "refuse"}
    assert list(flow.allowed(job, 1, restart=1).values()) == ["admit"]
    assert (flow.lab.base / "jobs" / f"ran.{job}").read_text().split() != ["n1"]
    assert set(flow.out_of_service()) == {"n1"}
    drain = next(d for d in flow.drains() if d.node == "n1")
    assert drain.owner == "ours-automatic" and drain.exit


def test_a_task_of_an_array_is_refused_by_itself(flow: Flow) -> None:
    flow.breaks("n1", "gpu_reset_required", gpu=1)
    array = flow.lab.sbatch("--array=0-2", "--gres=gpu:8", script="exit 0")
    flow.drained("n1")
    flow.wait(lambda: not flow.jobs_left(), 60, lambda: flow.jobs_left())
    listed = flow.lab.run(["squeue", "-h", "-r", "-t", "all", "-j", str(array), "-O", "JobID:20,State:20,RestartCnt:9"])
    rows = [line.split() for line in listed.stdout.splitlines()]
    assert [state for _, state, _ in rows] == ["COMPLETED"] * 3
    assert sorted(restarts for _, _, restarts in rows) == ["0", "0", "1"]
    refused = next(int(job) for job, _, restarts in rows if restarts == "1")
    assert flow.allowed(refused, 1, restart=0) == {"n1": "refuse"}
    assert set(flow.out_of_service()) == {"n1"}


def test_a_job_that_slurm_would_cancel_is_admitted_with_a_warning(flow: Flow) -> None:
    remap_fails(flow, "n1")
    job = flow.lab.sbatch("-w", "n1", "--no-requeue", "--gres=gpu:2", script="exit 0")
    flow.lab.wait_job(job, "COMPLETED", timeout=30)
    report = flow.answers(job, 1)["n1"]
    assert report.decision is not None
    assert report.decision.allowed == "admit" and "gpu_remap_failed" in report.decision.codes
    reason = flow.drained("n1")
    assert reason.startswith(OURS)
    assert any(i.node == "n1" for i in flow.incidents("permit_denied"))


def test_even_such_a_job_is_refused_where_its_device_is_lost(flow: Flow) -> None:
    flow.breaks("n1", "gpu_lost", gpu=0)
    job = flow.lab.sbatch("-w", "n1", "--no-requeue", "--gres=gpu:2", script="touch ran.$SLURM_JOB_ID")
    reason = flow.drained("n1")
    flow.lab.wait_job(job, "CANCELLED", timeout=30)
    assert reason.startswith(f"{OURS}gpu_lost ")
    assert flow.allowed(job, 1) == {"n1": "refuse"}
    assert not (flow.lab.base / "jobs" / f"ran.{job}").exists()


@pytest.mark.parametrize(("command", "told"), [("srun", "Prolog failure on node n1"), ("salloc", "revoked")])
def test_an_interactive_user_is_told_and_the_command_ends(flow: Flow, command: str, told: str) -> None:
    flow.breaks("n1", "gpu_lost", gpu=0)
    done = flow.lab.run([command, "-w", "n1,n2", "-N2", "--gres=gpu:1", "hostname"], check=False, timeout=60)
    assert done.returncode != 0, flow.why("n1")
    assert told in done.stderr and done.stdout == ""
    assert flow.drained("n1").startswith(f"{OURS}gpu_lost ")
    assert set(flow.out_of_service()) == {"n1"}


def test_without_a_permit_the_job_is_admitted_and_that_is_loud(flow: Flow) -> None:
    before = flow.status("n1").hooks["admitted_without_permit"]
    flow.cluster.kill_server()
    try:
        remap_fails(flow, "n1")
        job = flow.lab.sbatch("-w", "n1", "--gres=gpu:2", script="exit 0")
        flow.lab.wait_job(job, "COMPLETED", timeout=30)
        assert flow.status("n1").hooks["admitted_without_permit"] == before + 1
        assert flow.out_of_service() == {}
    finally:
        flow.cluster.start_server()
    report = flow.answers(job, 1)["n1"]
    assert report.decision is not None
    assert (report.decision.wanted, report.decision.allowed, report.decision.permit) == ("refuse", "admit", None)
    assert "no permit" in report.decision.why
    # The fault is on record now, and idle: what the prolog could not do is done between jobs.
    assert flow.drained("n1").startswith(OURS)
