"""What a process of ours does to itself before it works: it lets go of everything it inherited."""

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal

# The first descriptor behind standard input, output and error.
FIRST = 3
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_libc = ctypes.CDLL(None, use_errno=True)


def end_with_parent(parent: int) -> None:
    """Have the kernel send us SIGTERM when our parent ends; leave at once when it already has."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def set_name(name: str) -> None:
    """Name this process for ps and /proc/<pid>/comm, 15 bytes at most."""
    _libc.prctl(_PR_SET_NAME, name.encode("utf-8", "replace")[:15], 0, 0, 0)


def let_go(*keep: int) -> int:
    """Close every descriptor but ``keep``, which become 3 and on, and put /dev/null on 0 to 2; returns 3.

    A stuck worker must not hold its caller's pipes: whoever reads them would wait for ever.
    """
    first = FIRST + len(keep)
    kept = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, first) for descriptor in keep]
    null = os.open("/dev/null", os.O_RDWR)
    for standard in range(FIRST):
        os.dup2(null, standard)
    for number, descriptor in enumerate(kept, FIRST):
        os.dup2(descriptor, number)
    for name in os.listdir("/proc/self/fd"):
        if int(name) >= first:
            try:
                os.close(int(name))
            except OSError:
                continue
    return FIRST


def settle() -> None:
    """Own session, working directory /, signals at their default, no core files, private files."""
    os.setsid()
    os.chdir("/")
    os.umask(0o077)
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def settle_as_lane(oom_score: int) -> None:
    """What is left to do in a child of a settled process; every object touched here is copied once a lane."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
        os.write(descriptor, b"%d" % oom_score)
        os.close(descriptor)
    except OSError:
        return


def start_time(pid: int) -> int:
    """When ``pid`` started in clock ticks since boot, 0 when there is no such process; tells a reused pid."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields else 0


def stat_fields(pid: int) -> list[str]:
    """Fields of /proc/<pid>/stat from the state on (the name before may hold blanks), empty when it has gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().decode("ascii", "replace").rpartition(")")[2].split()
    except OSError:
        return []
