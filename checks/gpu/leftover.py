"""No process of an earlier job is left on the GPUs that this job is given."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import Code, Skip, check, code
from checks.gpu.ask import UNTOLD, answering, ask, opened, read
from checks.gpu.owners import graphics_processes, owner
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
    explain="Without the way from Slurm's index over gres.conf to the device minor no process is judged."
    " Confirm: gres.conf. Do: name File= for each GPU there.",
)
UNSEEN = code(
    "gpu_process_unseen",
    "unknown",
    "self",
    "process {pid} holds this GPU and is not seen in /proc",
    explain="It just ended, or lives where we cannot see it. Do: nothing; the next look tells more.",
)

GRAPHICS = code(
    "gpu_leftover_graphics",
    "warn",
    "job",
    "graphics process {pid} ({comm}) of no job holds this GPU",
    explain="A desktop or a remote display shares the GPU with the job. It is left alone. "
    "Confirm: `nvidia-smi`, type G. Do: set the node's default target to multi-user, or end the session.",
)


@check(lane="nvml", timeout=5.0, per_job=True, codes=(LEFTOVER, GRAPHICS, NO_MAP, UNSEEN, *UNTOLD))
def gpu_leftover(host: Host) -> Iterator[Finding]:
    """Processes on *this job's* GPUs that belong to no job.

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
            yield from _judge(host, gpu, pid, LEFTOVER)
        for pid in read(nvml, graphics_processes, gpu, trouble) or ():
            yield from _judge(host, gpu, pid, GRAPHICS)
    yield from trouble


def _mine(job: JobAttempt, gpus: list[Gpu]) -> tuple[list[Gpu], str]:
    """The job's GPUs by minor, and what is lacking of them."""
    if job.gpu_minors is None:
        return [], "no device minors given"
    by_minor = {g.minor: g for g in gpus if g.minor is not None}
    lacking = [m for m in job.gpu_minors if m not in by_minor]
    why = f"no answering GPU has minor {', '.join(map(str, lacking))}" if lacking else ""
    return [by_minor[m] for m in job.gpu_minors if m in by_minor], why


def _judge(host: Host, gpu: Gpu, pid: int, made: Code) -> Iterator[Finding]:
    found = owner(host, pid)
    if found is None:
        yield UNSEEN(gpu.target, pid=pid, uuid=gpu.uuid)
    elif not found.job and not found.system:
        yield made(gpu.target, pid=pid, comm=found.comm, uid=found.uid, minor=gpu.minor, uuid=gpu.uuid)
