"""The environment of a hook reads the same from every release, and garbled values only leave gaps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm.hostlist import HostlistError
from slurm.jobenv import JobEnv
from tests.slurm.recorded import RELEASES, hook


@pytest.mark.parametrize("release", RELEASES)
def test_reads_a_batch_job_on_four_nodes(release: str) -> None:
    """E11: job, user, node list and GPUs of a real prolog; 20.11 tells less."""
    env = JobEnv.parse(hook(release, "prolog-sbatch4"))
    old = release == "20.11"
    assert env.problems == ()
    assert (env.context, env.cluster, env.node, env.partition) == ("prolog_slurmd", "ci", "n1", "main")
    assert (env.uid, env.gid, env.user) == (1001, 1001, "hpcuser")
    assert env.nodelist == "n[1-4]"
    assert env.nodes() == ("n1", "n2", "n3", "n4")
    assert env.restart_count == (None if old else 0)
    assert env.num_nodes == (None if old else 4)
    assert env.gpu_indices == (None if old else (0, 1))
    assert env.attempt == (env.job_id, env.restart_count)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("case", ["sbatch1", "srun2", "array", "constr", "salloc4"])
def test_reads_every_way_to_start_a_job(release: str, case: str) -> None:
    env = JobEnv.parse(hook(release, f"prolog-{case}"))
    assert env.problems == ()
    assert env.job_id is not None
    assert env.node in env.nodes()


@pytest.mark.parametrize("release", RELEASES)
def test_reads_a_het_component(release: str) -> None:
    env = JobEnv.parse(hook(release, "prolog-het"))
    assert env.het_job_id is not None
    assert env.problems == ()


@pytest.mark.parametrize(("release", "exclusive"), [("20.11", None), ("22.05", None), ("24.11", True), ("26.05", True)])
def test_tells_an_exclusive_job(release: str, exclusive: bool | None) -> None:
    """E120: --exclusive shows in another variable with each release, and not at all in old ones."""
    assert JobEnv.parse(hook(release, "prolog-constr")).exclusive is exclusive
    shared = JobEnv.parse(hook(release, "prolog-sbatch4")).exclusive
    assert shared is (None if exclusive is None else False)


def test_the_controllers_hook_has_no_gpus_and_no_node() -> None:
    env = JobEnv.parse(hook("22.05", "prologslurmctld"))
    assert (env.context, env.node, env.gpu_indices) == ("prolog_slurmctld", None, None)


@pytest.mark.parametrize("release", RELEASES)
def test_the_health_check_knows_its_node_only(release: str) -> None:
    """E04: HealthCheckProgram gets SLURMD_NODENAME and nothing else."""
    assert JobEnv.parse(hook(release, "health")) == JobEnv(node="n1")


@pytest.mark.parametrize(
    ("text", "indices"),
    [("0", (0,)), ("0,1", (0, 1)), ("0-3,5", (0, 1, 2, 3, 5)), ("3,1,1", (3, 1)), ("", None), ("(null)", None)],
)
def test_reads_gpu_indices(text: str, indices: tuple[int, ...] | None) -> None:
    env = JobEnv.parse({"SLURM_JOB_GPUS": text, "CUDA_VISIBLE_DEVICES": "GPU-5fd4f087,MIG-1"})
    assert (env.gpu_indices, env.problems) == (indices, ())


def test_cuda_visible_devices_is_never_taken_for_indices() -> None:
    """E61, E62: a user may set it, and it may hold UUIDs; without SLURM_JOB_GPUS the GPUs are not known."""
    assert JobEnv.parse({"CUDA_VISIBLE_DEVICES": "0,1", "GPU_DEVICE_ORDINAL": "0"}).gpu_indices is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SLURM_JOB_ID", "12x"),
        ("SLURM_JOB_ID", "-1"),
        ("SLURM_JOB_ID", "9" * 40),
        ("SLURM_JOB_ID", "١٢"),
        ("SLURM_JOB_UID", "root"),
        ("SLURM_JOB_RESTART_COUNT", "1.5"),
        ("SLURM_JOB_GPUS", "0-"),
        ("SLURM_JOB_GPUS", "GPU-5fd4f087"),
        ("SLURM_JOB_GPUS", "0-9999"),
        ("SLURM_JOB_GPUS", "3-1"),
        ("SLURM_JOB_NODELIST", "n[1-"),
        ("SLURM_NODELIST", "$(reboot)"),
        ("SLURMD_NODENAME", "n1\nnodename=ALL"),
        ("SLURMD_NODENAME", "../../etc"),
        ("SLURM_JOB_USER", "a b\n"),
        ("SLURM_JOB_EXIT_CODE", "oops"),
        ("SLURM_JOB_START_TIME", "0"),
        ("SLURM_JOB_OVERSUBSCRIBE", "ja nein"),
    ],
)
def test_a_garbled_value_leaves_a_gap_and_its_name(name: str, value: str) -> None:
    assert JobEnv.parse({name: value}) == JobEnv(problems=(name,))


def test_falls_back_to_the_other_spelling() -> None:
    env = JobEnv.parse({"SLURM_JOB_NODELIST": "n[1-", "SLURM_NODELIST": "n[1-2]", "SLURM_JOBID": "7"})
    assert (env.nodelist, env.job_id, env.problems) == ("n[1-2]", 7, ("SLURM_JOB_NODELIST",))


def test_the_first_of_two_values_counts() -> None:
    env = JobEnv.parse(b"SLURM_JOB_ID=7\0SLURM_JOB_ID=8\0")
    assert (env.job_id, env.problems) == (7, ("SLURM_JOB_ID",))


def test_reads_a_wait_status() -> None:
    assert (JobEnv.parse({"SLURM_JOB_EXIT_CODE": "768"}).exit_code) == 3
    killed = JobEnv.parse({"SLURM_JOB_EXIT_CODE": "9"})
    assert (killed.exit_code, killed.exit_signal) == (0, 9)


def test_a_hostile_comment_is_only_text() -> None:
    comment = 'x\n"$(reboot)" ü' + "y" * 3000
    env = JobEnv.parse(f"SLURM_JOB_COMMENT={comment}\0SLURM_JOB_ID=7\0".encode())
    assert (env.comment, env.job_id) == (comment, 7)


def test_a_huge_list_costs_nothing_until_it_is_expanded() -> None:
    env = JobEnv.parse({"SLURM_NODELIST": "n[1-100000000]"})
    assert env.problems == ()
    with pytest.raises(HostlistError, match="limit is 100000"):
        env.nodes()
    names = ",".join(f"node{i:06d}" for i in range(5000))
    assert len(JobEnv.parse(f"SLURM_NODELIST={names}\0".encode()).nodes()) == 5000


def test_says_that_an_environment_is_too_large() -> None:
    env = JobEnv.parse(b"SLURM_JOB_ID=7\0" + b"x" * (256 * 1024))
    assert env.job_id == 7
    assert env.problems == ("environment has 262159 bytes, limit is 262144",)


@given(st.binary(max_size=300))
def test_any_bytes_give_a_job(body: bytes) -> None:
    assert JobEnv.parse(body).job_id is None or body


_NAMES = ["SLURM_JOB_ID", "SLURM_JOB_GPUS", "SLURM_NODELIST", "SLURMD_NODENAME", "SLURM_JOB_EXIT_CODE", "SLURM_JOB_UID"]


@given(st.dictionaries(st.sampled_from(_NAMES), st.text()))
def test_any_values_give_a_job(variables: dict[str, str]) -> None:
    env = JobEnv.parse(variables)
    assert set(env.problems) <= set(variables)
