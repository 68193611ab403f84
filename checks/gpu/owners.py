"""Who the processes are that hold a GPU, told by their control group."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from checks.gpu.device import Device
from checks.gpu.values import Fault, NvmlError
from checks.host import Host

_JOB = re.compile(r"/job_(\d+)(?:/|$)", re.MULTILINE)
_SYSTEM = frozenset(
    {"nvidia-persiste", "nv-hostengine", "nv-fabricmanage", "nvidia-imex", "nvidia-cuda-mps", "Xorg", "nvidia-smi"}
)
"""Names of system processes (15 characters, as the kernel keeps them) that are left alone when root runs them."""
_SLURM = ("/sys/fs/cgroup/system.slice/*slurmstepd.scope", "/sys/fs/cgroup/*/slurm*")
_JOBS = (
    "/sys/fs/cgroup/system.slice/*slurmstepd.scope/job_*",
    "/sys/fs/cgroup/*/slurm*/uid_*/job_*",
    "/sys/fs/cgroup/slurm*/uid_*/job_*",
)
_CALLS = ("Compute", "Graphics")


@dataclass(frozen=True, slots=True)
class Owner:
    """One process: ``job`` of its control group (empty outside any), ``system`` for a known daemon of root or us."""

    pid: int
    comm: str
    uid: int | None
    job: str
    system: bool


def owner(host: Host, pid: int) -> Owner | None:
    """Who a process is; None for one that is not seen in /proc."""
    try:
        groups = _given(host.read(f"/proc/{pid}/cgroup"))
        comm = host.read(f"/proc/{pid}/comm").strip()
        uid = _uid(host.read(f"/proc/{pid}/status"))
    except OSError:
        return None
    job = _JOB.search(groups)
    ours = "/nodevet" in groups
    return Owner(pid, comm, uid, job[1] if job else "", ours or (uid == 0 and comm in _SYSTEM))


def _given(groups: str) -> str:
    """The groups that root put a process in: below their own session users make and name groups as they like."""
    return "\n".join(line for line in groups.splitlines() if ":/user.slice/" not in line)


def jobs_here(host: Host) -> bool | None:
    """Whether any job has a control group on this node; None where Slurm keeps none, and nothing can be told."""
    if any(_lives(host, path) for pattern in _JOBS for path in host.glob(pattern)):
        return True
    return False if any(host.glob(pattern) for pattern in _SLURM) else None


def _lives(host: Host, group: Path) -> bool:
    """Whether a job's group has processes; one of version 1 does not say and counts as if it had."""
    try:
        return "populated 0" not in host.read(group / "cgroup.events")
    except OSError:
        return True


def graphics_processes(device: Device) -> tuple[int, ...]:
    return tuple(int(p.pid) for p in device.call("nvmlDeviceGetGraphicsRunningProcesses"))


@dataclass(frozen=True, slots=True)
class Holders:
    """Processes of any kind on one GPU, and the bytes in use without what the driver reserves (None: not told)."""

    pids: tuple[int, ...]
    used: int | None = None


def holders(device: Device) -> Holders:
    """Who holds the GPU, for MPS its server.

    A board whose memory the kernel uses as its own (a NUMA node) tells no use by programs.
    """
    pids: dict[int, None] = {}
    for kind in _CALLS:
        try:
            for process in device.call(f"nvmlDeviceGet{kind}RunningProcesses"):
                pids[int(process.pid)] = None
        except NvmlError as error:
            if error.fault is not Fault.NOT_SUPPORTED or kind == "Compute":
                raise
    kernels = device.number("nvmlDeviceGetNumaNodeId") is not None
    return Holders(tuple(pids), None if kernels else _used(device))


def _used(device: Device) -> int | None:
    version = getattr(device.lib, "nvmlMemory_v2", None)
    if version is None:
        return None
    try:
        return int(device.call("nvmlDeviceGetMemoryInfo", version).used)
    except NvmlError as error:
        if error.fault is Fault.NOT_SUPPORTED:
            return None
        raise


def _uid(status: str) -> int | None:
    """Real uid of a process, from the line "Uid: real effective saved fs"."""
    for line in status.splitlines():
        words = line.split()
        if words[:1] == ["Uid:"] and len(words) > 1 and words[1].isdecimal():
            return int(words[1])
    return None
