"""What becomes of a refused job and of a drained node is known from the running configuration."""

from __future__ import annotations

from collections.abc import Iterator

from slurm.doctor.advice import Advice
from slurm.doctor.limits import Running

FORCE_REQUEUE = (23, 2, 0)  # PrologFlags=ForceRequeueOnFail, SuspendExcStates, MaxBatchRequeue
DRAIN_EXC = (23, 2, 0)
REQUEUES_LEAST = 3


def job_rules(running: Running) -> Iterator[Advice]:
    """All advice about prolog flags, requeue, return to service and power saving."""
    yield from _flags(running)
    yield from _requeue(running)
    yield from _return_to_service(running)
    yield from _power(running)


def _flags(running: Running) -> Iterator[Advice]:
    limits = running.limits
    flags = limits.prolog_flags
    if flags is None:
        yield Advice(
            "warning", "PrologFlags", "not told by slurmctld", "whether nodes may wait for each other is unknown"
        )
        return
    shown = f"PrologFlags {running.value('PrologFlags') or 'none'}"
    if limits.deferbatch and "alloc" not in flags:
        why = "24.11 then runs the prolog on the batch host only: the other nodes are not vetted"
        yield Advice(
            "problem", "PrologFlags", f"{shown}: DeferBatch without Alloc", why, "PrologFlags=Alloc,DeferBatch"
        )
    elif not limits.alloc:
        why = "other nodes' prologs wait for the first step: a bad node is found late, and the job gate is off"
        yield Advice("warning", "PrologFlags", f"{shown}: no Alloc", why, "PrologFlags=Alloc")
    if limits.serial:
        why = "prologs that wait for each other across nodes would lock up: the job gate and group runs are off"
        yield Advice("warning", "PrologFlags", f"{shown}: Serial", why, "PrologFlags=Alloc")
    if "nohold" in flags:
        why = "salloc and srun do not wait: a step may run where no prolog ran (22.05), and a refused one end with 0"
        yield Advice("warning", "PrologFlags", f"{shown}: NoHold", why, "PrologFlags=Alloc")
    if not limits.gpus_told:
        why = "seen on 24.11.5: no GPU variables on the nodes after the first, a prolog that never started"
        yield Advice("warning", "PrologFlags", f"{shown}: RunInJob", why, "PrologFlags=Alloc")
    if limits.alloc and not limits.serial:
        why = "Slurm alone would start the script for a moment after a refusal; the job gate keeps it from that"
        yield Advice("ok", "PrologFlags", shown, why if limits.deferbatch else "")


def _requeue(running: Running) -> Iterator[Advice]:
    parameters = running.value("SchedulerParameters")
    if not running.limits.nohold:
        yield Advice(
            "warning",
            "nohold_on_prolog_fail",
            f"SchedulerParameters {parameters[:200] or 'none'}: no nohold_on_prolog_fail",
            "a job whose node was refused stays held until somebody releases it",
            f"SchedulerParameters={f'{parameters},' if parameters else ''}nohold_on_prolog_fail",
        )
    else:
        yield Advice("ok", "nohold_on_prolog_fail", "a refused job is requeued without a hold")
    if running.number("JobRequeue") == 0 and "forcerequeueonfail" not in (running.limits.prolog_flags or ()):
        force = "PrologFlags=Alloc,ForceRequeueOnFail" if running.since(FORCE_REQUEUE) else "JobRequeue=1"
        why = "a batch job whose node is refused is CANCELLED instead of requeued"
        yield Advice("warning", "JobRequeue", "JobRequeue 0", why, force)
    most = running.number("MaxBatchRequeue")
    if most is not None and most < REQUEUES_LEAST:
        why = "a job that met this many bad nodes is held for an administrator"
        yield Advice("warning", "MaxBatchRequeue", f"MaxBatchRequeue {most}", why, "MaxBatchRequeue=5")


def _return_to_service(running: Running) -> Iterator[Advice]:
    value = running.number("ReturnToService")
    if value == 0:
        why = "a node that was silent for SlurmdTimeout stays DOWN until a person resumes it: the reason is Slurm's own"
        yield Advice("warning", "ReturnToService", "ReturnToService 0", why, "ReturnToService=1")
    elif value is not None:
        after = "a node that rebooted by itself takes jobs at once, vetted by its prologs alone" if value == 2 else ""
        yield Advice("ok", "ReturnToService", f"ReturnToService {value}", after)


def _power(running: Running) -> Iterator[Advice]:
    idle = running.value("SuspendTime").upper()
    if not running.value("SuspendProgram") or idle in ("", "NONE", "INFINITE", "-1"):
        return
    states = running.value("SuspendExcStates").upper().split(",")
    if "DRAIN" in states:
        yield Advice("ok", "SuspendExcStates", "power saving leaves drained nodes up")
        return
    new = running.since(DRAIN_EXC)
    yield Advice(
        "warning",
        "SuspendExcStates",
        f"SuspendExcStates {','.join(filter(None, states)) or 'none'} with power saving after {idle}",
        "a drained node is suspended like an idle one, and idle_on_node_suspend wipes its drain",
        f"SuspendExcStates={','.join([*filter(None, states), 'DRAIN'])}" if new else "SuspendExcNodes=<the GPU nodes>",
    )
