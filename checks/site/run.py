"""A foreign program is run with bounded time and output, in a process group of its own, and never waited for."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import subprocess  # noqa: TID251 - a site's executables are started here only: an argument list, no shell
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

OUTPUT_LIMIT = 64 * 1024
GRACE = 1.0
"""Seconds between TERM and KILL, and again until it is given up."""
_TICK = 0.05
_ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


@dataclass(frozen=True, slots=True)
class Account:
    """Whom a program runs as."""

    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Ran:
    """How it ended: its exit status (negative: by that signal) and output, or why there is none that counts."""

    status: int | None
    output: bytes
    why: Literal["", "slow", "flood"] = ""
    left: subprocess.Popen[bytes] | None = None


def account(name: str, passwd: Path = Path("/etc/passwd")) -> Account | None:
    """The local account of this name; the file is read directly, since a directory service may hang."""
    with passwd.open(encoding="utf-8", errors="replace") as file:
        for line in file:
            fields = line.split(":")
            if len(fields) > 3 and fields[0] == name and fields[2].isdigit() and fields[3].isdigit():
                return Account(int(fields[2]), int(fields[3]))
    return None


def run(path: Path, who: Account | None, limit: float) -> Ran:
    """Run it for at most ``limit`` seconds as ``who`` (None: as we are); raises OSError when it cannot be started.

    One that is late or floods gets TERM, a second later KILL, with its whole process group. What even then does not
    end sits in the kernel: it is handed back in ``left``.
    """
    child = subprocess.Popen(
        [str(path)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd="/", env=_ENV,
        start_new_session=True, preexec_fn=_end_with_us(os.getpid()), user=who.uid if who else None,
        group=who.gid if who else None, extra_groups=[] if who else None,
    )  # fmt: skip
    assert child.stdout is not None
    with child.stdout, _watched(child.pid) as watch:
        output, why = _read(child, child.stdout.fileno(), watch, time.monotonic() + limit)
        if why:
            _signal(child, signal.SIGTERM)
            _wait(child, watch, GRACE)
        # Whatever it left running in its group has no one to answer to.
        _signal(child, signal.SIGKILL)
        if not _wait(child, watch, GRACE):
            return Ran(None, b"", why or "slow", child)
    return Ran(child.wait(), b"" if why else output, why)


def _end_with_us(parent: int) -> Callable[[], None]:
    def settle() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(127)

    return settle


@contextlib.contextmanager
def _watched(pid: int) -> Iterator[int | None]:
    """A descriptor that becomes readable when the process ends; None on a kernel without."""
    try:
        descriptor = os.pidfd_open(pid)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read(
    child: subprocess.Popen[bytes], out: int, watch: int | None, deadline: float
) -> tuple[bytes, Literal["", "slow", "flood"]]:
    """Its output until it ends; a grandchild that keeps the pipe open is not waited for."""
    os.set_blocking(out, False)
    poll = select.poll()
    poll.register(out, select.POLLIN)
    if watch is not None:
        poll.register(watch, select.POLLIN)
    got = bytearray()
    while True:
        ended = _ended(child)
        open_still = True
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(out, OUTPUT_LIMIT):
                got += chunk
                if len(got) > OUTPUT_LIMIT:
                    return b"", "flood"
            open_still = False
        if ended:
            return bytes(got), ""
        if not open_still:
            with contextlib.suppress(KeyError):
                poll.unregister(out)
        left = deadline - time.monotonic()
        if left <= 0:
            return b"", "slow"
        poll.poll(1000 * (left if watch is not None else min(left, _TICK)))


def _ended(child: subprocess.Popen[bytes]) -> bool:
    """Whether it has ended; it is not reaped, so that its process group's number cannot become another's."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _wait(child: subprocess.Popen[bytes], watch: int | None, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    poll = select.poll()
    if watch is not None:
        poll.register(watch, select.POLLIN)
    while not _ended(child):
        if (left := deadline - time.monotonic()) <= 0:
            return False
        poll.poll(1000 * (left if watch is not None else min(left, _TICK)))
    return True


def _signal(child: subprocess.Popen[bytes], number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, number)
