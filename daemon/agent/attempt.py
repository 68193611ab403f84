"""The hook's environment becomes a job attempt whose GPUs are device minors of this node."""

from __future__ import annotations

from checks.wire import JobAttempt
from slurm.gres import GresError, gpu_files, minor
from slurm.hostlist import HostlistError, count
from slurm.jobenv import JobEnv

NODELIST_KEPT = 4096


def attempt_of(env: JobEnv, gres_conf: str, node: str, *, told: bool = True) -> tuple[JobAttempt | None, str]:
    """The attempt (None without a job id), and why its GPUs are not known where they are not.

    ``told``: this Slurm tells the hooks of every node of a job about its GPUs.
    """
    if env.job_id is None:
        return None, ""
    minors, why = job_minors(env, gres_conf, node, told=told)
    nodelist = env.nodelist or ""
    made = JobAttempt(
        job_id=env.job_id,
        restart_count=env.restart_count,
        uid=env.uid,
        partition=env.partition,
        nodes=env.num_nodes if env.num_nodes is not None else _count(nodelist),
        nodelist=nodelist if len(nodelist) <= NODELIST_KEPT else "",
        gpu_minors=minors,
        exclusive=env.exclusive,
    )
    return made, why


def job_minors(env: JobEnv, gres_conf: str, node: str, *, told: bool = True) -> tuple[tuple[int, ...] | None, str]:
    """SLURM_JOB_GPUS -> File of gres.conf -> device minor; () = a job without GPUs, None = not known.

    Slurm before 21.08 has neither a restart count nor SLURM_JOB_GPUS in a hook: there unset says nothing. With RunInJob
    24.11 leaves it out on every node of a job but the first.
    """
    if "SLURM_JOB_GPUS" in env.problems:
        return None, "SLURM_JOB_GPUS cannot be read"
    if env.gpu_indices is None and not told and env.num_nodes != 1:
        return None, "with RunInJob this Slurm tells a job's GPUs to the hooks of its first node only"
    if env.gpu_indices is None:
        return ((), "") if env.restart_count is not None else (None, "this Slurm does not tell a job's GPUs to hooks")
    try:
        files = gpu_files(gres_conf, node)
    except (GresError, HostlistError) as error:
        return None, f"gres.conf: {error}"
    if not files:
        return None, "gres.conf names no GPU files for this node"
    found: list[int] = []
    for index in env.gpu_indices:
        number = minor(files[index]) if index < len(files) else None
        if number is None:
            return None, f"gres.conf has no device for GPU index {index} among {len(files)} files"
        found.append(number)
    return tuple(found), ""


def _count(nodelist: str) -> int | None:
    try:
        return count(nodelist) if nodelist else None
    except HostlistError:
        return None
