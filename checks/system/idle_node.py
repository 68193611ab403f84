"""A node without a job has no user's process left on it and its processors have nothing to do."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.system import walk
from checks.system.processors import CPUS, cpu_list
from checks.wire import Finding

LEFT = code(
    "user_processes_left",
    "warn",
    "job",
    "{count} processes of users run without a job or a session, the first is {pid} ({comm}, uid {uid})",
    explain="They outlived their job or came from outside it, and take from the next one what it is given. They are "
    "told and never signalled. Confirm: `ps -eo pid,user,cgroup,lstart,comm`. Do: end them by hand or in the epilog; "
    "with ProctrackType=proctrack/cgroup and pam_slurm_adopt none gets away.",
)
BUSY = code(
    "idle_load_high",
    "warn",
    "node",
    "load of {load:g} on {cpus} processors without a job, limit {limit:g}",
    explain="Something computes or waits in the kernel although no job is here. Confirm: `top`, "
    "`ps -eo pid,stat,wchan:32,comm | grep -e ' R' -e ' D'`. Do: see who it is; what waits for a dead file system "
    "counts, too.",
)
LOOKS = 2
"""Rounds in a row at which it must be seen: what a job leaves ends a moment after it."""
USERS_LIMIT = 5_000
"""Processes of users that are looked at: with so many left, more make no difference."""
_JOB = re.compile(r"/job_?\d+", re.MULTILINE)
# The kernel's and systemd's own places for what is no job's: sessions, user managers, services, containers.
_KNOWN = re.compile(
    r"(?:^|/)(?:session-[^/]*\.scope|user@\d+\.service|[^/]*\.service|machine\.slice|kubepods[^/]*|"
    r"(?:docker|libpod|cri-containerd|crio)-[^/]*\.scope|docker|lxc[^/]*|init\.scope)(?:/|$)"
)
_SLURMD = re.compile(r"/(?:slurmd\.service|[^/]*slurmstepd\.scope)(?:/|$)")
_STEP = b"slurmstepd: ["
Key = tuple[int, int]


@dataclass(slots=True)
class _Seen:
    """At how many rounds in a row each process (id and start time) was seen, and the load was high."""

    left: dict[Key, int] = field(default_factory=dict)
    busy: int = 0


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    start: int
    uid: int
    comm: str


@check(lane="system", interval=300, timeout=5.0, codes=(LEFT, BUSY))
def idle_node(
    host: Host, *, min_uid: int = 1000, max_load: float = 0.5, ignore: tuple[str, ...] = ()
) -> Iterator[Finding]:
    """Processes of users (``min_uid`` and above) outside any session, service or container, and the load average.

    Asked only while no step of a job lives here, and told only when seen twice in a row. ``max_load`` is for each
    processor, in the shorter of 1 and 5 minutes; ``ignore`` are names of commands. The limits are ours.
    Confirm by hand: ``ps -eo pid,user,cgroup,comm``, ``uptime``.
    """
    state = host.kept("idle_node", _Seen)
    users, working = _look(host, min_uid)
    if working:
        state.left, state.busy = {}, 0
        raise Skip("a job runs here")
    left = [p for p in users if p.comm not in ignore and _stray(host, p.pid)]
    state.left = {(p.pid, p.start): state.left.get((p.pid, p.start), 0) + 1 for p in left}
    lasting = [p for p in left if state.left[p.pid, p.start] >= LOOKS]
    if lasting:
        first = min(lasting, key=lambda p: p.pid)
        yield LEFT("node", count=len(lasting), pid=first.pid, comm=first.comm, uid=first.uid)
    load = min(float(word) for word in host.read("/proc/loadavg").split()[:2])
    cpus = max(1, len(cpu_list(host.read(f"{CPUS}/online"))))
    state.busy = state.busy + 1 if load > max_load * cpus else 0
    if state.busy >= LOOKS:
        yield BUSY("node", load=load, cpus=cpus, limit=max_load * cpus)
    elif not lasting:
        yield ok("node", f"load {load:g}", load=load, cpus=cpus)


def _look(host: Host, min_uid: int) -> tuple[list[_Process], bool]:
    """Processes of users, and whether a step of a job lives here."""
    everyone = walk.processes(host)
    if any(p.comm == b"slurmstepd" and _is_step(host, p.pid) for p in everyone):
        return [], True
    users = []
    for process in everyone:
        try:
            uid = _uid(host, process.pid)
        except (OSError, IndexError, ValueError):
            continue  # it has ended since it was listed
        if uid >= min_uid:
            users.append(_Process(process.pid, process.start, uid, process.comm.decode("utf-8", "replace")))
            if len(users) >= USERS_LIMIT:
                break
    return users, False


def _is_step(host: Host, pid: int) -> bool:
    """Whether it is Slurm's: root's, or ours where Slurm runs without root. A user can take both name and words."""
    try:
        ours = _uid(host, pid) in (0, os.geteuid())
        return ours and walk.head_of(host, pid, "cmdline", 64).startswith(_STEP)
    except (OSError, IndexError, ValueError):
        return False


def _uid(host: Host, pid: int) -> int:
    """Whose process it is; in a tree that was copied the owner of the folder says nothing."""
    if not host.redirected:
        return os.stat(f"/proc/{pid}").st_uid
    return int(walk.head_of(host, pid, "status").partition(b"\nUid:")[2].split()[0])


def _stray(host: Host, pid: int) -> bool:
    """Whether its control group is neither a job's nor any other known place."""
    try:
        text = walk.head_of(host, pid, "cgroup", 8192).decode("utf-8", "replace")
    except OSError:
        return False
    groups = [line.split(":", 2)[-1] for line in text.splitlines()]
    # Without systemd, and in a container, all is in the root group: nothing can be told.
    groups = [g for g in groups if g != "/"]
    if not groups or any(_JOB.search(g) for g in groups):
        return False
    return not any(_KNOWN.search(g) and not _SLURMD.search(g) for g in groups)
