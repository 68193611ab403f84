"""Only processes of no job on this job's own GPUs are judged."""

from __future__ import annotations

import pytest

from checks import CHECKS
from checks.gpu.leftover import gpu_leftover
from checks.gpu.values import Fault
from checks.runner import run_check
from checks.wire import JobAttempt
from tests.fakes import BDFS, Plant, h100s, pci_tree


def process(pid: int, cgroup: str, *, comm: str = "python3", uid: int = 1000) -> dict[str, str | bytes]:
    return {
        f"/proc/{pid}/cgroup": cgroup,
        f"/proc/{pid}/comm": comm + "\n",
        f"/proc/{pid}/status": f"Name:\t{comm}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n",
    }


ORPHAN = process(4242, "0::/user.slice/user-1000.slice/session-3.scope\n")
JOB = JobAttempt(job_id=77, gpu_minors=(7, 6))


def test_a_leftover_on_this_jobs_gpu_is_found_by_minor(plant: Plant) -> None:
    """E62, E69: minor 6 is NVML index 1 here; the orphan on it is named, its GPU by PCI id."""
    nvml = h100s()
    nvml[1].processes = (4242,)
    (found,) = gpu_leftover(plant(pci_tree() | ORPHAN, nvml=nvml, job=JOB))
    assert (found.target, found.code, found.blame) == (BDFS[1], "gpu_leftover", "job")
    assert (found.evidence["pid"], found.evidence["minor"]) == (4242, 6)


def test_a_process_on_another_jobs_gpu_is_ignored(plant: Plant) -> None:
    """E62, E68: GPUs that are not this job's are never looked at."""
    nvml = h100s()
    nvml[5].processes = (4242,)
    assert list(gpu_leftover(plant(pci_tree() | ORPHAN, nvml=nvml, job=JOB))) == []


@pytest.mark.parametrize(
    "cgroup",
    [
        "0::/system.slice/slurmstepd.scope/job_77/step_0/user/task_0\n",
        "0::/system.slice/slurmstepd.scope/job_78/step_batch/user/task_0\n",
        "11:devices:/slurm/uid_1000/job_78/step_0\n10:memory:/slurm\n",
        "0::/slurm/gpu1/uid_1000/job_77\n",
    ],
)
def test_a_process_of_any_job_is_never_judged(plant: Plant, cgroup: str) -> None:
    """E61: two jobs of one user; neither this job's nor another job's processes are judged."""
    nvml = h100s()
    nvml[0].processes = (4242,)
    assert list(gpu_leftover(plant(pci_tree() | process(4242, cgroup), nvml=nvml, job=JOB))) == []


def test_a_system_service_of_root_is_left_alone(plant: Plant) -> None:
    nvml = h100s()
    nvml[0].processes = (1, 2)
    tree = process(1, "0::/system.slice/dcgm.service\n", comm="nv-hostengine", uid=0)
    tree |= process(2, "0::/user.slice\n", comm="nv-hostengine", uid=1000)
    assert [f.evidence["pid"] for f in gpu_leftover(plant(pci_tree() | tree, nvml=nvml, job=JOB))] == [2]


def test_without_a_map_nothing_is_judged(plant: Plant) -> None:
    """E68: an empty or missing GPU list never means all GPUs."""
    nvml = h100s()
    nvml[0].processes = (4242,)
    (found,) = gpu_leftover(plant(pci_tree() | ORPHAN, nvml=nvml, job=JobAttempt(job_id=77)))
    assert (found.code, found.status, found.blame) == ("gpu_leftover_no_map", "unknown", "self")


def test_a_lost_gpu_of_the_job_leaves_its_others_judged(plant: Plant) -> None:
    nvml = h100s(8, {0: Fault.GPU_IS_LOST})
    nvml[1].processes = (4242,)
    found = list(gpu_leftover(plant(pci_tree() | ORPHAN, nvml=nvml, job=JOB)))
    assert [f.code for f in found] == ["gpu_leftover_no_map", "gpu_leftover"]


def test_an_instance_of_mig_is_left_alone(plant: Plant) -> None:
    nvml = h100s()
    nvml[0].processes, nvml[0].mig = (4242,), True
    assert list(gpu_leftover(plant(pci_tree() | ORPHAN, nvml=nvml, job=JOB))) == []


def test_a_process_that_is_not_seen_is_unknown(plant: Plant) -> None:
    """E62: inside a container the pid means nothing to us."""
    nvml = h100s()
    nvml[0].processes = (99999,)
    (found,) = gpu_leftover(plant(pci_tree(), nvml=nvml, job=JOB))
    assert (found.code, found.status) == ("gpu_process_unseen", "unknown")


@pytest.mark.parametrize("job", [None, JobAttempt(job_id=1, gpu_minors=())])
def test_skips_a_job_without_gpus(plant: Plant, job: JobAttempt | None) -> None:
    (found,) = run_check(CHECKS["gpu_leftover"], plant(pci_tree(), nvml=h100s(), job=job)).findings
    assert found.status == "skipped"


def test_hostile_names_are_cleaned(plant: Plant) -> None:
    nvml = h100s()
    nvml[0].processes = (4242,)
    tree = process(4242, "0::/\n", comm="a\x1b[31m$(reboot)\u202e")
    (found,) = gpu_leftover(plant(pci_tree() | tree, nvml=nvml, job=JOB))
    assert "\x1b" not in found.message
    assert "\u202e" not in str(found.evidence["comm"])
