"""Jobs of every kind are vetted on each of their nodes, each only on its own GPUs."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from deploy.simcluster.cluster import Options
from tests.flow.flow import WIDE_GUARD, Flow, running

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def up() -> Iterator[Flow]:
    with running(Options(nodes=3, server=WIDE_GUARD)) as flow:
        yield flow


@pytest.fixture
def flow(up: Flow) -> Flow:
    up.calm()
    return up


def gpus_seen(flow: Flow, job: int, count: int = 1) -> dict[str, tuple[int, ...] | None]:
    """The device minors that each node's prolog found for the job."""
    return {n: r.job.gpu_minors if r.job else None for n, r in flow.answers(job, count).items()}


def gpu_of_minor(flow: Flow, node: str, minor: int) -> int:
    """The NVML index of the GPU that Slurm knows by its device minor."""
    return flow.cluster.hosts[node].board.minors.index(minor)


def test_a_batch_job_is_vetted_on_each_node_before_its_script_runs(flow: Flow) -> None:
    job = flow.lab.sbatch("-N2", "--gres=gpu:3", script="srun -n2 hostname")
    flow.lab.wait_job(job, "COMPLETED")
    assert flow.allowed(job, 2) == {"n1": "admit", "n2": "admit"}
    assert gpus_seen(flow, job, 2) == {"n1": (0, 1, 2), "n2": (0, 1, 2)}
    flow.wait(lambda: len(flow.reports(job, "epilog")) == 2, 20, "epilog reports are missing")


@pytest.mark.parametrize("command", ["srun", "salloc"])
def test_an_interactive_job_is_vetted_too(flow: Flow, command: str) -> None:
    script = ["sh", "-c", "echo job-$SLURM_JOB_ID"]
    done = flow.lab.run([command, "-N2", "--ntasks=2", "--gres=gpu:1", *script])
    job = int(done.stdout.split()[0].removeprefix("job-"))
    assert flow.allowed(job, 2) == {"n1": "admit", "n2": "admit"}


def test_each_task_of_an_array_is_an_attempt_of_its_own(flow: Flow) -> None:
    array = flow.lab.sbatch("--array=0-3", "--gres=gpu:2", script="exit 0")
    flow.lab.wait_for(lambda: not flow.jobs_left(), 60, lambda: flow.jobs_left())
    rows = flow.lab.run(["squeue", "-h", "-r", "-t", "all", "-j", str(array), "-o", "%A %T"]).stdout.split()
    jobs, states = [int(j) for j in rows[::2]], set(rows[1::2])
    assert len(set(jobs)) == 4 and states == {"COMPLETED"}
    for job in jobs:
        assert list(flow.allowed(job, 1).values()) == ["admit"]


def test_two_jobs_of_one_node_are_each_asked_about_their_own_gpus(flow: Flow) -> None:
    first = flow.lab.sbatch("-w", "n2", "--gres=gpu:2", script="sleep 60")
    flow.lab.wait_job(first, "RUNNING")
    flow.answers(first, 1)
    # A process that no job owns sits on a GPU of the job that runs there already: none of the newcomer's business.
    flow.cluster.hosts["n2"].inject("leftover_process", gpu=gpu_of_minor(flow, "n2", 0))
    second = flow.lab.sbatch("-w", "n2", "--gres=gpu:2", script="exit 0")
    flow.lab.wait_job(second, "COMPLETED")
    assert gpus_seen(flow, first) == {"n2": (0, 1)}
    assert gpus_seen(flow, second) == {"n2": (2, 3)}
    assert "gpu_leftover" not in {f.code for f in flow.answers(second, 1)["n2"].findings}


def test_a_process_left_on_the_jobs_own_gpu_is_named_and_never_drains(flow: Flow) -> None:
    host = flow.cluster.hosts["n2"]
    host.inject("leftover_process", gpu=gpu_of_minor(flow, "n2", 1), pid=90211)
    job = flow.lab.sbatch("-w", "n2", "--gres=gpu:2", script="exit 0")
    flow.lab.wait_job(job, "COMPLETED")
    report = flow.answers(job, 1)["n2"]
    assert {f.code for f in report.findings if f.status == "fail"} == {"gpu_leftover"}
    assert report.decision is not None
    assert (report.decision.wanted, report.decision.allowed) == ("wait", "admit")
    assert flow.out_of_service() == {}


def test_a_process_of_another_job_is_never_judged(flow: Flow) -> None:
    flow.cluster.hosts["n2"].inject("leftover_process", gpu=gpu_of_minor(flow, "n2", 0), job=4711)
    job = flow.lab.sbatch("-w", "n2", "--gres=gpu:1", script="exit 0")
    flow.lab.wait_job(job, "COMPLETED")
    assert {f.code for f in flow.answers(job, 1)["n2"].findings if f.status == "fail"} == set()


def test_a_job_without_gpus_is_asked_about_none(flow: Flow) -> None:
    flow.cluster.hosts["n2"].inject("leftover_process", gpu=0)
    job = flow.lab.sbatch("-w", "n2", "-n1", script="exit 0")
    flow.lab.wait_job(job, "COMPLETED")
    report = flow.answers(job, 1)["n2"]
    assert report.job is not None and report.job.gpu_minors == ()
    assert {f.code for f in report.findings if f.check == "gpu_leftover"} <= {"not_applicable"}


def test_a_job_alone_on_its_node_is_asked_about_all_gpus(flow: Flow) -> None:
    job = flow.lab.sbatch("-w", "n1", "--exclusive", "--gres=gpu:1", script="exit 0")
    flow.lab.wait_job(job, "COMPLETED")
    assert gpus_seen(flow, job) == {"n1": tuple(range(8))}


def test_components_of_a_het_job_are_separate_jobs(flow: Flow) -> None:
    one, other = ["-N1", "--gres=gpu:1"], ["-N2", "--gres=gpu:2"]
    argv = ["sbatch", "--parsable", *one, ":", *other, "--wrap=exit 0"]
    job = int(flow.lab.run(argv).stdout.split(";")[0])
    flow.lab.wait_for(lambda: not flow.jobs_left(), 60, lambda: flow.jobs_left())
    assert len(flow.allowed(job, 1)) == 1
    assert len(flow.allowed(job + 1, 2)) == 2


@pytest.mark.parametrize("spelling", ["SLURM_NODELIST", "SLURM_JOB_NODELIST"])
def test_both_spellings_of_the_node_list_lead_through_the_gate(flow: Flow, spelling: str) -> None:
    """22.05 says SLURM_NODELIST to its hooks, 24.11 and 26.05 say SLURM_JOB_NODELIST as well."""
    job = 900_000 + ("JOB" in spelling)
    before = flow.status("n1").gate
    for node in ("n3", "n2", "n1"):
        env = hook_env(job, node) | {spelling: "n[1-3]"}
        assert flow.says(node, "prolog", env) == (0, "nodevet: admitted")
    opened = flow.status("n1").gate
    assert (opened["opened"], opened["absent"]) == (before["opened"] + 1, before["absent"])
    assert flow.allowed(job, 3) == dict.fromkeys(("n1", "n2", "n3"), "admit")


def hook_env(job: int, node: str) -> dict[str, str]:
    """What slurmd gives the prolog of a job on three nodes, the node list left out."""
    return {
        "SLURM_JOB_ID": str(job),
        "SLURM_JOB_RESTART_COUNT": "0",
        "SLURM_JOB_UID": str(os.getuid()),
        "SLURM_JOB_NUM_NODES": "3",
        "SLURM_JOB_PARTITION": "main",
        "SLURM_JOB_GPUS": "0,1",
        "SLURMD_NODENAME": node,
        "SLURM_SCRIPT_CONTEXT": "prolog_slurmd",
    }
