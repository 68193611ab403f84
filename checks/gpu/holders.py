"""On a node without a job no process holds a GPU, and no memory of a GPU is in use."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import Skip, check, code, ok
from checks.gpu.ask import UNTOLD, answering, ask, opened, read
from checks.gpu.owners import Holders, Owner, holders, jobs_here, owner
from checks.gpu.values import Gpu
from checks.host import Host
from checks.wire import Finding

HELD = code(
    "gpu_held",
    "warn",
    "job",
    "process {pid} ({comm}) of no job holds this GPU while no job runs on the node",
    explain="A container, an ssh session or a daemon that outlived its job; the next job will find less memory. "
    "It is never signalled. Confirm: `nvidia-smi --query-compute-apps=gpu_bus_id,pid,name,used_memory --format=csv`, "
    "`cat /proc/<pid>/cgroup`. Do: end the process, or look at the job's epilog.",
)
NOBODY = code(
    "gpu_memory_held",
    "warn",
    "node",
    "{mib} MiB in use and no process holds this GPU, limit {limit} MiB",
    explain="Memory of a program that ended badly was not given back, or a process hides in a container of its own. "
    "Confirm: `nvidia-smi -i <pci id>`, `fuser -v /dev/nvidia*`. Do: when idle, reset the GPU or reboot.",
)
MIB = 1 << 20
_PAUSE = 240.0
Since = dict[tuple[str, int], float]


@check(lane="nvml", interval=600, timeout=5.0, codes=(HELD, NOBODY, *UNTOLD))
def gpu_holders(host: Host, *, limit_mib: int = 512) -> Iterator[Finding]:
    """Who holds each GPU; told as trouble only when no job runs here and it is so at two looks minutes apart.

    Whether a job runs is told by Slurm's control groups; a node without them is not judged. With MIG the memory in
    use is not. A GPU that a hook speaks of is asked by gpu_leftover. Confirm by hand: ``nvidia-smi``.

    ``limit_mib``: what a GPU may keep in use while no process holds it.
    """
    nvml = opened(host)
    busy = jobs_here(host)
    if busy is None:
        raise Skip("Slurm keeps no control groups here: which processes are a job's cannot be told")
    before = host.kept("gpu_holders", Since)
    now, seen = host.clock(), Since()
    trouble: list[Finding] = []
    for gpu in answering(nvml):
        told = read(nvml, holders, gpu, trouble)
        if told is None:
            continue
        whole = not ask(nvml.mig, gpu, trouble)
        found = [] if busy else _idle(host, gpu, told, limit_mib * MIB if whole else None)
        for key, finding in found:
            seen[gpu.uuid or gpu.target, key] = first = before.get((gpu.uuid or gpu.target, key), now)
            if now - first >= _PAUSE:
                yield finding
        if told.pids:
            yield ok(gpu.target, "held by processes", processes=len(told.pids), mib=(told.used or 0) // MIB)
    before.clear()
    before.update(seen)
    yield from trouble


def _idle(host: Host, gpu: Gpu, told: Holders, limit: int | None) -> Iterator[tuple[int, Finding]]:
    """What must not be on a node without a job, each with a number that tells it from the others (0: no process)."""
    people: list[Owner] = [found for pid in told.pids if (found := owner(host, pid)) is not None]
    for one in people:
        if not one.job and not one.system:
            yield one.pid, HELD(gpu.target, pid=one.pid, comm=one.comm, uid=one.uid, uuid=gpu.uuid)
    if not told.pids and limit is not None and told.used is not None and told.used > limit:
        yield 0, NOBODY(gpu.target, mib=told.used // MIB, limit=limit // MIB, uuid=gpu.uuid)
