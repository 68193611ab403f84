"""The kernel has killed no process for want of memory, neither for a job's own limit nor for the node's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from checks.declare import check, clean, code
from checks.host import Host
from checks.log.kmsg import KernelLog, Record
from checks.log.listening import UNREADABLE, listen, log_path, open_log
from checks.wire import Finding

JOB = code(
    "oom_job",
    "warn",
    "job",
    "job reached its own memory limit: {comm} was killed ({kills} in all)",
    explain="The control group of the job, not the node, ran out of memory: the job asked for too little, or uses too "
    "much. Confirm: `dmesg | grep oom-kill`, `sacct -j <job> -o ReqMem,MaxRSS,State`. Do: nothing to the node.",
)
NODE = code(
    "oom_node",
    "warn",
    "config",
    "memory of the node ran out: {comm} of {whose} was killed ({kills} in all)",
    explain="Without a limit for the jobs (ConstrainRAMSpace in cgroup.conf, memory as a consumable resource), or with "
    "too little kept back for the system (MemSpecLimit), one program takes what others need. The one that was killed "
    "need not be the one that took it. Confirm: `dmesg | grep oom-kill`, `free -g`. It drains no node."
    " Do: set such a limit.",
)
SERVICE = code(
    "oom_service",
    "warn",
    "config",
    "a memory limit outside of jobs was reached: {comm} was killed ({kills} in all)",
    explain="A service of the node reached the limit of its own control group. Confirm: `dmesg | grep oom-kill`, "
    "`systemctl status <service>`. Do: look at that service and its MemoryMax.",
)

# What a user chooses, the name of his process, stands behind "task=": nothing before it is taken from there, and what
# follows it is read from the end.
_KILL = re.compile(
    r"oom-kill:constraint=(?P<constraint>CONSTRAINT_[A-Z_]{1,32}),.*?"
    r"(?:oom_memcg=(?P<limit>[^,]*)|global_oom),task_memcg=(?P<group>[^,]*),task=(?P<comm>.{1,64}),pid=\d{1,10},uid=\d{1,10}"
)
# Kernels before 4.19.
_OLD = re.compile(r"Task in (?P<group>/\S*) killed as a result of limit of (?P<limit>/\S*)")
_OLD_NODE = re.compile(r"Out of memory: Kill process \d{1,10} \((?P<comm>.{1,16})\) score ")
_JOB = re.compile(r"/job_(\d{1,10})(?:/|$)")
KEPT = 256


@dataclass(slots=True)
class _Kills:
    """Processes killed for one cause: how many, the last one's name, whose it was, and when we read of it."""

    count: int
    comm: str
    whose: str
    read_at: float


@dataclass(slots=True)
class _State:
    log: KernelLog
    boot_id: str = ""
    kills: dict[tuple[str, str], _Kills] = field(default_factory=dict)


@check(lane="kmsg", interval=10, timeout=3.0, codes=(JOB, NODE, SERVICE, UNREADABLE))
def kernel_oom(host: Host, *, hold: float = 900.0) -> Iterator[Finding]:
    """Processes that the kernel killed for want of memory, by whose limit it was: a job's, a service's, the node's.

    A job is known by the path of its control group, never by a name that its user chose. What was written before we
    listen is history, and so is a kill after ``hold`` seconds. Confirm by hand: ``dmesg -T | grep -i oom-kill``.
    """
    state = host.kept(f"kernel_oom {log_path(host)}", lambda: _State(open_log(host)))
    if (boot_id := host.boot_id()) != state.boot_id:
        state.boot_id, state.kills = boot_id, {}
    reading = listen(host, state.log, boot_id)
    if isinstance(reading, Finding):
        yield reading
        return
    if reading.blind:
        yield UNREADABLE("node", error=f"no kernel records in {log_path(host).name}")
    now = host.clock()
    for record in reading.records:
        if record.fresh:
            _take(state, record, now)
    for (kind, target), kills in list(state.kills.items()):
        if now - kills.read_at > hold:
            del state.kills[kind, target]
        else:
            yield _finding(kind, target, kills)


def _take(state: _State, record: Record, now: float) -> None:
    """Count a kill under the job, the service or the node whose limit it was for."""
    comm, limit, group = "a process", "", ""
    if (found := _KILL.fullmatch(record.text)) is not None:
        comm, group = found["comm"], found["group"]
        limit = found["limit"] or "" if found["constraint"] == "CONSTRAINT_MEMCG" else ""
    elif (found := _OLD.match(record.text)) is not None:
        group, limit = found["group"], found["limit"]
    elif (found := _OLD_NODE.match(record.text)) is not None:
        comm = found["comm"]
    else:
        return
    job, victim = _JOB.search(limit), _JOB.search(group)
    key = ("job", f"job {job[1]}") if job else ("service", "node") if limit else ("node", "node")
    if key not in state.kills and len(state.kills) >= KEPT:
        del state.kills[next(iter(state.kills))]
    before = state.kills.pop(key, None)
    whose = f"job {victim[1]}" if victim else "no job"
    state.kills[key] = _Kills((before.count if before else 0) + 1, clean(comm, 32), whose, now)


def _finding(kind: str, target: str, kills: _Kills) -> Finding:
    if kind == "job":
        return JOB(target, comm=kills.comm, kills=kills.count)
    if kind == "service":
        return SERVICE(target, comm=kills.comm, kills=kills.count)
    return NODE(target, comm=kills.comm, whose=kills.whose, kills=kills.count)
