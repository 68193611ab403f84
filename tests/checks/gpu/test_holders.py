"""Who holds a GPU is told as trouble only where no job can be the one."""

from __future__ import annotations

import pytest

from checks import CHECKS, Finding, Host
from checks.gpu.holders import MIB, gpu_holders
from checks.gpu.leftover import gpu_leftover
from checks.gpu.owners import Holders, graphics_processes, holders
from checks.gpu.values import Fault, NvmlError
from checks.runner import run_check
from checks.wire import JobAttempt
from tests.checks.gpu.test_health import Clock
from tests.fakes import BDFS, Plant, h100s, pci_tree

SLURM = "/sys/fs/cgroup/system.slice/slurmstepd.scope"
IDLE = {f"{SLURM}/cgroup.procs": ""}
BUSY = IDLE | {f"{SLURM}/job_77/cgroup.procs": ""}


def process(
    pid: int, comm: str = "python3", uid: int = 20001, group: str = "user.slice/session-7.scope"
) -> dict[str, str]:
    return {
        f"/proc/{pid}/comm": f"{comm}\n",
        f"/proc/{pid}/status": f"Name:\t{comm}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n",
        f"/proc/{pid}/cgroup": f"0::/{group}\n",
    }


def looks(host: Host, times: int = 2, step: float = 300.0) -> list[Finding]:
    """What is found at the last of some looks."""
    clock = Clock()
    host.clock = clock
    found: list[Finding] = []
    for _ in range(times):
        found = list(gpu_holders(host))
        clock.seconds += step
    return found


def trouble(found: list[Finding]) -> list[tuple[str, str, str | None]]:
    return [(f.code, f.status, f.blame) for f in found if f.status != "ok"]


OURS = [("gpu_held", "warn", "job")]


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (IDLE | process(4711), OURS),
        (IDLE | process(4711, uid=0, comm="dcgmi"), OURS),
        (BUSY | process(4711), []),
        (IDLE | process(4711, group="system.slice/slurmstepd.scope/job_77/step_0/user/task_0"), []),
        (IDLE | process(4711, comm="nv-hostengine", uid=0), []),
        (IDLE | process(4711, comm="nv-hostengine", uid=1000), OURS),
        (IDLE | process(4711, group="system.slice/nodevet-agent.service"), []),
        (IDLE | process(4711, group="user.slice/user-20001.slice/user@20001.service/nodevet"), OURS),
        (IDLE | process(4711, group="user.slice/user-20001.slice/user@20001.service/job_77/x"), OURS),
        (IDLE, []),
        (IDLE | {f"{SLURM}/job_77/cgroup.events": "populated 0\nfrozen 0\n"} | process(4711), OURS),
        (IDLE | {f"{SLURM}/job_77/cgroup.events": "populated 1\nfrozen 0\n"} | process(4711), []),
        ({"/sys/fs/cgroup/memory/slurm/uid_0/cgroup.procs": ""} | process(4711), OURS),
        ({"/sys/fs/cgroup/memory/slurm/uid_20001/job_5/cgroup.procs": ""} | process(4711), []),
        ({"/sys/fs/cgroup/system.slice/n1_slurmstepd.scope/job_5/x": ""} | process(4711), []),
    ],
)
def test_a_process_of_no_job_on_a_node_without_one_is_told(
    plant: Plant, tree: dict[str, str], expected: list[tuple[str, str, str]]
) -> None:
    """E69, E15: an ssh session or container that outlived its job; never one of a job, ours, or a system's daemon."""
    nvml = h100s(2)
    nvml[1].told = {holders: Holders((4711,), 4096 * MIB)}
    found = looks(plant(pci_tree(2) | tree, nvml=nvml))
    assert trouble(found) == expected
    assert [f.evidence["mib"] for f in found if f.status == "ok"] == [4096]


def test_one_look_is_not_enough(plant: Plant) -> None:
    """A program that just ends, or a check of somebody's, is gone at the next look."""
    nvml = h100s(1)
    nvml[0].told = {holders: Holders((4711,), 0)}
    host = plant(pci_tree(1) | IDLE | process(4711), nvml=nvml)
    assert trouble(looks(host, times=1)) == []
    assert trouble(looks(host, times=2, step=10.0)) == []
    nvml[0].told = {holders: Holders((), 0)}
    assert trouble(looks(host, times=1)) == []
    nvml[0].told = {holders: Holders((4711,), 0)}
    assert trouble(looks(host, times=1)) == []


def test_where_slurm_keeps_no_control_groups_nothing_is_judged(plant: Plant) -> None:
    """Every job's process would look like nobody's there."""
    nvml = h100s(1)
    nvml[0].told = {holders: Holders((4711,), 4096 * MIB)}
    (found,) = run_check(CHECKS["gpu_holders"], plant(pci_tree(1) | process(4711), nvml=nvml)).findings
    assert (found.status, "control groups" in found.message) == ("skipped", True)


@pytest.mark.parametrize(
    ("told", "tree", "mig", "expected"),
    [
        (Holders((), 4096 * MIB), IDLE, False, [("gpu_memory_held", "warn", "node")]),
        (Holders((), 512 * MIB), IDLE, False, []),
        (Holders((), 4096 * MIB), BUSY, False, []),
        (Holders((), 4096 * MIB), IDLE, True, []),
        (Holders((), None), IDLE, False, []),
        (Holders((999,), 4096 * MIB), IDLE, False, []),
        (NvmlError(Fault.NOT_SUPPORTED), IDLE, False, []),
        (NvmlError(Fault.UNKNOWN), IDLE, False, [("gpu_unanswered", "unknown", "node")]),
    ],
)
def test_memory_that_nobody_holds_is_told(
    plant: Plant,
    told: Holders | NvmlError,
    tree: dict[str, str],
    mig: bool,
    expected: list[tuple[str, str, str]],
) -> None:
    """E48: not with MIG; nor where the kernel uses the board's memory itself; nor while a job may hold it."""
    nvml = h100s(1)
    nvml[0].told, nvml[0].mig = {holders: told}, mig
    assert trouble(looks(plant(pci_tree(1) | tree, nvml=nvml))) == expected


def test_a_hook_looks_at_graphics_on_its_own_gpus_only(plant: Plant) -> None:
    """E61, E62: a desktop on a job's GPU is told and left alone; one on another GPU is nobody's business."""
    nvml = h100s(8)
    nvml[2].told = nvml[5].told = {graphics_processes: (4711,)}
    job = JobAttempt(job_id=9, gpu_minors=(nvml[2].gpu.minor or 0,))
    host = plant(pci_tree() | process(4711, comm="gnome-shell"), nvml=nvml, job=job)
    found = list(gpu_leftover(host))
    assert [(f.target, f.code, f.status, f.blame) for f in found] == [(BDFS[2], "gpu_leftover_graphics", "warn", "job")]
    system = plant(process(4711, comm="Xorg", uid=0), nvml=nvml, job=job)
    assert list(gpu_leftover(system)) == []
