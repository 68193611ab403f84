"""What a real slurmd tells its Prolog and Epilog is read right for every way to start a job."""

from __future__ import annotations

import pytest

from tests.cluster.cluster import Cluster

pytestmark = pytest.mark.cluster


@pytest.fixture(autouse=True)
def _all_idle(cluster: Cluster) -> None:
    """These tests name their nodes."""
    cluster.lab.wait_idle()


def test_a_batch_job_on_two_nodes(cluster: Cluster) -> None:
    job = cluster.lab.sbatch("--nodelist=n[2-3]", "-N2", "--gres=gpu:2", script="exit 3", user="nobody")
    for node in ("n2", "n3"):
        env = cluster.environment("prolog", job, node)
        assert env.problems == ()
        assert (env.context, env.cluster, env.node, env.job_id) == ("prolog_slurmd", "sim", node, job)
        assert (env.nodelist, env.nodes(), env.num_nodes) == ("n[2-3]", ("n2", "n3"), 2)
        assert (env.user, env.partition, env.restart_count, env.het_job_id) == ("nobody", "main", 0, None)
        assert env.gpu_indices == (0, 1)
    epilog = cluster.environment("epilog", job, "n2")
    assert (epilog.context, epilog.exit_code, epilog.exit_signal) == ("epilog_slurmd", 3, 0)


def test_srun_and_a_job_without_gpus(cluster: Cluster) -> None:
    """E62: without GPUs SLURM_JOB_GPUS is not set, and no GPU is the job's."""
    done = cluster.lab.run(["srun", "--nodelist=n2", "sh", "-c", "echo $SLURM_JOB_ID"])
    env = cluster.environment("prolog", int(done.stdout), "n2")
    assert (env.problems, env.gpu_indices, env.nodes()) == ((), None, ("n2",))


def test_salloc(cluster: Cluster) -> None:
    done = cluster.lab.run(["salloc", "--nodelist=n2", "--gres=gpu:3", "sh", "-c", "echo $SLURM_JOB_ID"])
    env = cluster.environment("prolog", int(done.stdout), "n2")
    assert (env.problems, env.gpu_indices) == ((), (0, 1, 2))


def test_every_task_of_an_array_is_a_job_of_its_own(cluster: Cluster) -> None:
    first = cluster.lab.sbatch("--nodelist=n2", "--array=0-2", "--gres=gpu:1", script="sleep 3")
    cluster.lab.wait_for(
        lambda: len(_jobs_since(cluster, first)) == 3, 60, lambda: f"prologs ran for {_jobs_since(cluster, first)}"
    )
    seen = [cluster.environment("prolog", job, "n2") for job in _jobs_since(cluster, first)]
    assert all(env.problems == () for env in seen)
    assert len({env.job_id for env in seen}) == 3


def test_two_jobs_on_one_node_have_different_gpus(cluster: Cluster) -> None:
    """E61: each hook knows its own GPUs only."""
    jobs = [cluster.lab.sbatch("--nodelist=n2", "-n1", f"--gres=gpu:{n}", script="sleep 20") for n in (1, 2)]
    one, two = (cluster.environment("prolog", job, "n2").gpu_indices for job in jobs)
    assert one is not None and two is not None
    assert (len(one), len(two), set(one) & set(two)) == (1, 2, set())


def test_a_job_alone_on_its_node_has_all_its_gpus(cluster: Cluster) -> None:
    job = cluster.lab.sbatch("--nodelist=n2", "--exclusive", "--gres=gpu:1", script="sleep 2")
    env = cluster.environment("prolog", job, "n2")
    # 22.05 does not say that the node is the job's alone, and gives it every GPU all the same.
    assert env.exclusive in (True, None) and env.gpu_indices == (0, 1, 2, 3)


def test_a_het_job_names_its_leader(cluster: Cluster) -> None:
    done = cluster.lab.run(
        ["sbatch", "--parsable", "-N1", "--nodelist=n2", ":", "-N1", "--nodelist=n3", "--wrap=sleep 5"]
    )
    leader = int(done.stdout)
    first, second = cluster.environment("prolog", leader, "n2"), cluster.environment("prolog", leader + 1, "n3")
    assert (first.het_job_id, second.het_job_id) == (leader, leader)
    assert (first.job_id, second.job_id) == (leader, leader + 1)


def test_a_requeued_job_has_another_attempt(cluster: Cluster) -> None:
    """DESIGN 1: job id and restart count together name the attempt."""
    job = cluster.lab.sbatch("--nodelist=n2", script="sleep 60")
    first = cluster.environment("prolog", job, "n2")
    cluster.lab.wait_job(job, "RUNNING")
    cluster.backend.requeue(job)
    (cluster.hooks / f"prolog.{job}.n2").unlink()
    second = cluster.environment("prolog", job, "n2")
    assert (first.attempt, second.attempt) == ((job, 0), (job, 1))


def test_hostile_words_of_a_user_stay_words(cluster: Cluster) -> None:
    comment = 'a "b" $(reboot)\nSLURM_JOB_ID=1 ü ' + "y" * 900
    job = cluster.lab.sbatch("--nodelist=n2", f"--comment={comment}", "--job-name=$(id)\nx", script="true")
    env = cluster.environment("prolog", job, "n2")
    assert (env.job_id, env.comment, env.problems) == (job, comment, ())


def _jobs_since(cluster: Cluster, first: int) -> list[int]:
    ids = (int(path.name.split(".")[1]) for path in cluster.hooks.glob("prolog.*.n2"))
    return sorted(job for job in ids if job >= first)
