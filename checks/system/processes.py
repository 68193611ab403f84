"""No process hangs in the kernel for good, and there is room for new processes and open files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from checks.declare import check, code, ok
from checks.host import Host
from checks.system import walk
from checks.wire import Finding

STUCK = code(
    "processes_stuck",
    "warn",
    "node",
    "{count} processes wait in the kernel for more than {seconds:.0f} s, the first in {where}",
    explain="They cannot be ended, and what they hold (GPUs, files) stays held. What they wait for has a check of its "
    "own: a mount, a driver. Confirm: `ps -eo pid,stat,wchan:32,comm | grep ' D'`, `cat /proc/<pid>/stack`."
    " Do: mend what they wait for; only a reboot frees a process that stays.",
)
ZOMBIES = code(
    "zombies_many",
    "warn",
    "job",
    "{count} ended processes were not collected by their parents, limit {limit}",
    explain="A program does not wait for its children. Confirm: `ps -eo ppid,stat | grep Z | sort | uniq -c`."
    " Do: tell the owner of the program, or end the parent.",
)
PIDS = code(
    "process_ids_short",
    "warn",
    "node",
    "{used} tasks of at most {limit} ({percent} %, limit {limit_pct} %)",
    explain="New processes will soon fail with EAGAIN. Confirm: `cat /proc/loadavg /proc/sys/kernel/pid_max`."
    " Do: find who makes them (`ps -eLf`), or raise kernel.pid_max.",
)
FILES = code(
    "open_files_short",
    "warn",
    "node",
    "{used} open files of at most {limit} ({percent} %, limit {limit_pct} %)",
    explain="New files will soon fail with ENFILE. Confirm: `cat /proc/sys/fs/file-nr`."
    " Do: find who holds them (`lsof`), or raise fs.file-max.",
)
Key = tuple[int, int]


@dataclass(slots=True)
class _Waiting:
    """Since when, by our clock, each process (id and start time) has been seen in D state at every look."""

    since: dict[Key, float] = field(default_factory=dict)


@check(lane="system", interval=120, timeout=5.0, codes=(STUCK, ZOMBIES, PIDS, FILES))
def processes(
    host: Host, *, stuck_after: float = 300.0, max_zombies: int = 1000, used_pct: int = 80
) -> Iterator[Finding]:
    """One pass over the processes' states; one that was in D state at every look for ``stuck_after`` seconds is stuck.

    1,000 zombies and 80 % of ids and files are gpud's limits; 300 s are gcm's. Confirm by hand: ``ps -eo pid,stat``.

    ``max_zombies``: ended processes that nobody has waited for. ``used_pct``: of process ids and of open files.
    """
    waiting, zombies, count = _look(host)
    state = host.kept("processes", _Waiting)
    now = host.clock()
    state.since = {key: state.since.get(key, now) for key in waiting}
    stuck = sorted(key for key, since in state.since.items() if now - since >= stuck_after)
    if stuck:
        yield STUCK("node", count=len(stuck), seconds=stuck_after, where=_where(host, stuck[0][0]), pid=stuck[0][0])
    if zombies > max_zombies:
        yield ZOMBIES("node", count=zombies, limit=max_zombies)
    yield from _room(host, used_pct)
    yield ok("node", f"{count} processes", processes=count, waiting=len(waiting), zombies=zombies)


def _look(host: Host) -> tuple[list[Key], int, int]:
    """Processes in D state, how many zombies, how many processes in all."""
    waiting, zombies, count = [], 0, 0
    for process in walk.processes(host):
        count += 1
        if process.state == b"D":
            waiting.append((process.pid, process.start))
        zombies += process.state == b"Z"
    return waiting, zombies, count


def _where(host: Host, pid: int) -> str:
    """The kernel's function in which a process waits."""
    try:
        return host.read(f"/proc/{pid}/wchan").strip().strip("0") or "an unnamed place"
    except OSError:
        return "an unnamed place"


def _room(host: Host, used_pct: int) -> Iterator[Finding]:
    tasks = int(host.read("/proc/loadavg").split()[3].partition("/")[2])
    most = min(int(host.read(f"/proc/sys/kernel/{name}")) for name in ("pid_max", "threads-max"))
    opened, _, files = (int(word) for word in host.read("/proc/sys/fs/file-nr").split()[:3])
    for made, used, limit in ((PIDS, tasks, most), (FILES, opened, files)):
        if limit > 0 and used * 100 >= limit * used_pct:
            yield made("node", used=used, limit=limit, percent=used * 100 // limit, limit_pct=used_pct)
