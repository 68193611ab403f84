"""No process of an earlier job is left on the GPUs that this job is given."""

from __future__ import annotations

import re
from collections.abc import Iterator

from checks.declare import Skip, check, code
from checks.gpu.ask import GPU_UNANSWERED, answering, ask, opened
from checks.gpu.values import Gpu
from checks.host import Host
from checks.wire import Finding, JobAttempt

LEFTOVER = code(
    "gpu_leftover",
    "fail",
    "job",
    "process {pid} ({comm}) of no job holds this GPU",
    explain="A process outside every job's control group still computes on a GPU that a new job is given: usually a "
    "container or a session that outlived its job. It is waited for and never signalled. "
    "Confirm: `nvidia-smi --query-compute-apps=gpu_bus_id,pid,name --format=csv`, `cat /proc/<pid>/cgroup`. "
    "Do: end the process, or look at the job's epilog.",
)
NO_MAP = code(
    "gpu_leftover_no_map",
    "unknown",
    "self",
    "job's GPUs cannot be told from the node's: {why}",
    explain="Without the way from Slurm's index over gres.conf to the device minor no process is judged.",
)
UNSEEN = code(
    "gpu_process_unseen",
    "unknown",
    "self",
    "process {pid} holds this GPU and is not seen in /proc",
    explain="It just ended, or lives where we cannot see it.",
)

_JOB = re.compile(r"/job_(\d+)(?:/|$)", re.MULTILINE)
_SYSTEM = frozenset({"nvidia-persiste", "nv-hostengine", "nv-fabricmanage", "nvidia-imex", "nvidia-cuda-mps", "Xorg"})
"""Names of system processes (15 characters, as the kernel keeps them) that are left alone when root runs them."""


@check(lane="nvml", timeout=5.0, per_job=True, codes=(LEFTOVER, NO_MAP, UNSEEN, GPU_UNANSWERED))
def gpu_leftover(host: Host) -> Iterator[Finding]:
    """Compute processes on *this job's* GPUs that belong to no job.

    The GPUs are found by device minor, the owner of a process by its control group; a process of this or any other
    job is never judged, nor is any GPU of another job. With MIG the process may sit in another instance: left alone.
    Confirm by hand: ``nvidia-smi``, ``cat /proc/<pid>/cgroup``.
    """
    job = host.job
    if job is None:
        raise Skip("no job at hand")
    if job.gpu_minors == ():
        raise Skip("job has no GPU")
    nvml = opened(host)
    gpus = answering(nvml)
    mine, why = _mine(job, gpus)
    if why:
        yield NO_MAP("node", why=why)
    trouble: list[Finding] = []
    for gpu in mine:
        if ask(nvml.mig, gpu, trouble):
            continue
        for pid in ask(nvml.processes, gpu, trouble) or ():
            yield from _judge(host, gpu, pid)
    yield from trouble


def _mine(job: JobAttempt, gpus: list[Gpu]) -> tuple[list[Gpu], str]:
    """The job's GPUs by minor, and what is lacking of them."""
    if job.gpu_minors is None:
        return [], "no device minors given"
    by_minor = {g.minor: g for g in gpus if g.minor is not None}
    lacking = [m for m in job.gpu_minors if m not in by_minor]
    why = f"no answering GPU has minor {', '.join(map(str, lacking))}" if lacking else ""
    return [by_minor[m] for m in job.gpu_minors if m in by_minor], why


def _judge(host: Host, gpu: Gpu, pid: int) -> Iterator[Finding]:
    try:
        groups = host.read(f"/proc/{pid}/cgroup")
        comm = host.read(f"/proc/{pid}/comm").strip()
        uid = _uid(host.read(f"/proc/{pid}/status"))
    except OSError:
        yield UNSEEN(gpu.target, pid=pid, uuid=gpu.uuid)
        return
    if _JOB.search(groups) or (uid == 0 and comm in _SYSTEM):
        return
    yield LEFTOVER(gpu.target, pid=pid, comm=comm, uid=uid, minor=gpu.minor, uuid=gpu.uuid)


def _uid(status: str) -> int | None:
    """Real uid of a process, from the line "Uid: real effective saved fs"."""
    for line in status.splitlines():
        words = line.split()
        if words[:1] == ["Uid:"] and len(words) > 1 and words[1].isdecimal():
            return int(words[1])
    return None
