"""Whatever happens around our hooks, each job ends as Slurm ends it, and no node is drained in our name for it."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from deploy.simcluster import processes
from tests.cluster.hook_bench import FIRST, LAST, Bench, bench
from tests.flow.flow import OURS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def cluster_up() -> Iterator[Bench]:
    with bench(4) as made:
        yield made


@pytest.fixture
def up(cluster_up: Bench) -> Bench:
    cluster_up.calm()
    return cluster_up


def on(up: Bench, node: str, *options: str, script: str = "exit 0") -> int:
    """A batch job on one node with two of its GPUs."""
    return up.lab.sbatch("-w", node, "--gres=gpu:2", *options, script=script)


def names(up: Bench, job: int, kind: str = "prolog") -> list[str]:
    """Which of the site's scripts ran for a job, in order."""
    return [name for _, _, name in up.ran(job, kind)]


def test_failures_of_others_in_a_chain_stay_theirs(up: Bench) -> None:
    """E108: "Prolog error" without a refusal of ours is neither ours nor hardware: it is left as it is, and said.

    A chain runs in reverse order and stops at the first failure, so that a script before ours may keep us from being
    asked, and our refusal keeps a script behind us from being called.
    """
    up.breaks("n3", "gpu_reset_required", gpu=2)
    with (
        up.told("fail", f"prolog-{FIRST}", "n1"),
        up.told("fail", f"prolog-{LAST}", "n2"),
        up.told("fail", f"epilog-{FIRST}", "n4"),
    ):
        first, last, ours, after = (on(up, node) for node in ("n1", "n2", "n3", "n4"))
        reasons = {node: up.drained(node) for node in ("n1", "n2", "n3", "n4")}
    assert reasons["n1"].startswith("Prolog error") and reasons["n2"].startswith("Prolog error")
    assert reasons["n3"].startswith(f"{OURS}gpu_reset_required ")
    assert reasons["n4"].startswith("Epilog error")
    for job in (first, last, ours):
        up.lab.wait_job(job, "PENDING")
    assert up.lab.wait_job(after, "COMPLETED") == "COMPLETED"
    assert (names(up, first), names(up, last), names(up, ours)) == ([FIRST], [FIRST, LAST], [FIRST])
    assert up.allowed(last, 1) == {"n2": "admit"} and up.allowed(ours, 1) == {"n3": "refuse"}
    # Our epilog behind a prolog that never asked us: answered, reported, and counted as a start without a verdict.
    up.wait(lambda: len(up.reports(first, "epilog")) == 1, 30, "no epilog report of the job whose prolog never asked")
    assert up.reports(first) == [] and names(up, first, "epilog") == [FIRST, LAST]
    assert names(up, after, "epilog") == [FIRST] and up.reports(after, "epilog") == []
    up.steps(3)
    assert {node: up.lab.node_reason(node) for node in reasons} == reasons
    assert {d.node for d in up.drains() if d.owner.startswith("ours")} == {"n3"}


def test_a_job_cancelled_in_its_prolog_lets_everybody_go(up: Bench) -> None:
    """The holder of the gate goes at once, whoever is asked afterwards is answered, nothing is drained or left."""
    left = up.status("n1").gate["left"]
    with up.told("hold", f"prolog-{FIRST}", "n3", "n4"):
        wide = up.lab.sbatch("-w", "n[1-3]", "-N3", "--gres=gpu:2", script="touch ran.$SLURM_JOB_ID")
        narrow = on(up, "n4", script="touch ran.$SLURM_JOB_ID")
        up.wait(lambda: "n3" in up.called(wide) and "n4" in up.called(narrow), 30, "the prologs do not run")
        up.wait(lambda: {"n1", "n2"} <= up.called(wide), 30, "the gate is not held")
        up.lab.run(["scancel", str(wide), str(narrow)])
        up.wait(lambda: ("n1", LAST) in up.scripts(wide), 30, "the first node's prolog is kept for a job that is gone")
        assert up.status("n1").gate["left"] == left + 1
    for job in (wide, narrow):
        assert up.lab.wait_job(job, "CANCELLED") == "CANCELLED"
        assert not (up.lab.base / f"jobs/ran.{job}").exists()
    assert up.allowed(wide, 3) == dict.fromkeys(("n1", "n2", "n3"), "admit")
    up.lab.wait_idle(30)
    up.steps(2)
    assert up.out_of_service() == {}


def test_a_slurmd_that_goes_in_the_middle_of_a_prolog_asks_again_for_nothing_new(up: Bench) -> None:
    """A slurmd told to end waits for its prolog, and the job runs. One that is killed never learns how that ended:

    slurmctld takes the job back when BatchStartTimeout is over, here a person does, and each attempt is told once.
    """
    with up.told("hold", f"prolog-{LAST}", "n1", "n2"):
        ended, killed = on(up, "n1"), on(up, "n2")
        up.wait(lambda: LAST in names(up, ended) and LAST in names(up, killed), 30, "the prologs do not run")
        processes.end([up.lab.pid("slurmd-n2")], grace=0)
        os.kill(up.lab.pid("slurmd-n1"), 15)
        up.lab.start_slurmd("n2")
    up.lab.start_slurmd("n1")
    assert up.lab.wait_job(ended, "COMPLETED") == "COMPLETED"
    assert up.lab.job_state(killed) == "RUNNING"
    up.lab.run(["scontrol", "requeue", str(killed)])
    assert up.lab.wait_job(killed, "COMPLETED") == "COMPLETED"
    up.allowed(killed, 1, restart=1)
    for job in (ended, killed):
        attempts = [r.job.restart_count for r in up.reports(job) if r.job is not None]
        assert len(attempts) == up.restarts(job) + 1 and set(attempts) == set(range(up.restarts(job) + 1))
    assert up.out_of_service() == {}


def test_an_attempt_after_a_requeue_is_vetted_anew(up: Bench) -> None:
    """And of a het job each component is: a refused one costs its own node, never the node of another component."""
    again = on(up, "n4", script="[ $SLURM_RESTART_COUNT ] || sleep 60")
    up.lab.wait_job(again, "RUNNING")
    up.allowed(again, 1)
    up.breaks("n3", "gpu_reset_required", gpu=2)
    argv = ["sbatch", "--parsable", "-w", "n1", "--gres=gpu:1", ":", "-w", "n[2-3]", "-N2", "--gres=gpu:2"]
    # Long enough to be there when the refusal comes.
    leader = int(up.lab.run([*argv, "--wrap=sleep 30"]).stdout.split(";")[0])
    up.lab.run(["scontrol", "requeue", str(again)])
    assert up.drained("n3").startswith(f"{OURS}gpu_reset_required ")
    assert up.allowed(leader + 1, 2) == {"n2": "admit", "n3": "refuse"}
    assert up.allowed(leader, 1) == {"n1": "admit"}
    assert up.minors(leader, 1) == {"n1": (0,)} and up.minors(leader + 1, 2) == {"n2": (0, 1), "n3": (0, 1)}
    # 26.05.5 asks for the component's requeue, which only a leader can have ("Job not heterogeneous job leader"), and
    # so lets a het job run whose later component was refused.
    up.lab.wait_job(leader + 1, "RUNNING" if up.release >= (26, 5, 0) else "PENDING")
    assert set(up.out_of_service()) == {"n3"}
    up.lab.wait_job(again, "COMPLETED")
    assert up.allowed(again, 1, restart=0) == up.allowed(again, 1, restart=1) == {"n4": "admit"}


def test_who_runs_already_is_left_alone_when_a_newcomer_is_refused(up: Bench) -> None:
    """A part of the node that must be reset is nobody's alone: the node takes no more jobs, and its jobs run on.

    That holds for newcomers without GPUs too: none is looked at for them, and the node's verdict is the same.
    """
    began, ends = up.cluster.base / "began", up.cluster.base / "ends"
    there = on(up, "n1", script=f"touch {began}; while test ! -e {ends}; do sleep 0.2; done")
    up.wait(began.exists, 60, "the first job's script does not begin")  # Slurm says RUNNING before its prolog has ended
    up.breaks("n1", "gpu_reset_required", gpu=2)
    up.breaks("n2", "gpu_reset_required", gpu=2)
    newcomer, cpus = on(up, "n1"), up.lab.sbatch("-w", "n2", "-n1", script="exit 0")
    assert up.drained("n1").startswith(f"{OURS}gpu_reset_required ")
    assert "DRAIN" in up.lab.node_state("n1") and up.lab.job_state(there) == "RUNNING"
    assert up.minors(there, 1) == {"n1": (0, 1)} and up.minors(newcomer, 1) == {"n1": (2, 3)}
    assert up.allowed(newcomer, 1) == {"n1": "refuse"}
    assert up.drained("n2").startswith(f"{OURS}gpu_reset_required ")
    assert up.allowed(cpus, 1) == {"n2": "refuse"} and up.minors(cpus, 1) == {"n2": ()}
    ends.touch()
    assert up.lab.wait_job(there, "COMPLETED") == "COMPLETED" and up.restarts(there) == 0


def test_an_epilog_of_a_job_that_nobody_knows_is_noted_and_never_fails(up: Bench) -> None:
    env = {
        "SLURM_JOB_ID": "777001",
        "SLURM_JOB_RESTART_COUNT": "0",
        "SLURM_JOB_UID": "0",
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_NODELIST": "n2",
        "SLURM_JOB_GPUS": "0",
        "SLURMD_NODENAME": "n2",
        "SLURM_SCRIPT_CONTEXT": "epilog_slurmd",
        "SLURM_JOB_EXIT_CODE": "0",
    }
    assert up.says("n2", "epilog", env) == (0, "nodevet: epilog noted")
    up.wait(lambda: len(up.reports(777001, "epilog")) == 1, 30, "the epilog is not reported")
    assert up.without_prolog(777001) == {"n2"} and up.out_of_service() == {}


def held(up: Bench) -> set[int]:
    """What `nodevet jobs --held` lists."""
    listed = up.cluster.get("jobs", only="held")
    assert isinstance(listed, dict)
    return {row["job_id"] for row in listed["items"]}


def test_a_job_that_slurm_holds_after_our_refusal_is_listed(up: Bench) -> None:
    """Without nohold_on_prolog_fail one refusal is enough, and nobody would look for a held job by himself."""
    up.set("SchedulerParameters", "bf_interval=1,sched_interval=1,batch_sched_delay=0")
    try:
        up.breaks("n1", "gpu_reset_required", gpu=2)
        job = on(up, "n1")
        assert up.drained("n1").startswith(f"{OURS}gpu_reset_required ")
        up.wait(lambda: job in held(up), 40, lambda: f"{held(up)} {up.jobs_left()}")
    finally:
        up.set("SchedulerParameters", up.scheduling)


def test_a_job_held_for_too_many_requeues_is_listed(up: Bench) -> None:
    if up.release < (23, 2, 0):
        pytest.skip(f"Slurm {up.release[0]}.{up.release[1]:02d} has no MaxBatchRequeue")
    up.set("MaxBatchRequeue", "1")
    try:
        up.breaks("n1", "gpu_reset_required", gpu=2)
        job = on(up, "n1")
        assert up.drained("n1").startswith(f"{OURS}gpu_reset_required ")
        up.wait(lambda: job in held(up), 40, lambda: f"{held(up)} {up.jobs_left()}")
    finally:
        up.set("MaxBatchRequeue", "5")
