"""Processes of a lab are found by the lab's mark in their environment and ended by process id, never by name."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

MARK = "NODEVET_LAB"
"""Environment variable that every process of a lab carries; its value is the lab's base directory."""

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def spawn(
    argv: Sequence[str | Path],
    *,
    env: Mapping[str, str],
    log: Path,
    user: str | None = None,
) -> subprocess.Popen[bytes]:
    """Start a daemon in a session of its own, as ``user`` with that user's own group only."""
    with log.open("ab") as out:
        command = [str(word) for word in argv]
        common: dict[str, str] = {"PATH": PATH, "LANG": "C.UTF-8", **env}
        if user is None or os.geteuid() != 0:
            return subprocess.Popen(
                command, env=common, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        entry = pwd.getpwnam(user)
        return subprocess.Popen(
            command,
            env=common,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
            user=entry.pw_uid,
            group=entry.pw_gid,
            extra_groups=[],
        )


def alive(pid: int) -> bool:
    """Whether ``pid`` runs; a zombie does not, although a signal still reaches it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def _parents() -> dict[int, int]:
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, IndexError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    return parents


def _marked(pid: int, needle: bytes) -> bool:
    with suppress(OSError):
        return needle in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False


def of_lab(base: Path) -> set[int]:
    """Every live process that carries the mark of ``base``, with all its descendants, but never the caller.

    Nor anything the caller was started by: a shell may have the mark because its user talks to the lab.
    """
    needle = f"{MARK}={base}".encode()
    parents = _parents()
    callers = {os.getpid()}
    while above := {parents[pid] for pid in callers if pid in parents} - callers:
        callers |= above
    found = {pid for pid in parents if pid not in callers and _marked(pid, needle)}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found - callers
        found |= more
        grown = bool(more)
    return {pid for pid in found if alive(pid)}


def end(pids: Iterable[int], *, grace: float = 5.0) -> set[int]:
    """TERM, then after ``grace`` seconds KILL; return what even that did not end (D state)."""
    left = {pid for pid in pids if pid > 1 and pid != os.getpid() and alive(pid)}
    for number, patience in ((signal.SIGTERM, grace), (signal.SIGKILL, 20.0)):
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        left = wait_gone(left, patience)
        if not left:
            break
    return left


def wait_gone(pids: Iterable[int], timeout: float) -> set[int]:
    """Wait until all are gone or ``timeout`` seconds have passed; return the ones that remain."""
    deadline = time.monotonic() + timeout
    left = set(pids)
    while left:
        for pid in left:
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        left = {pid for pid in left if alive(pid)}
        if not left or time.monotonic() > deadline:
            break
        time.sleep(0.02)
    return left


def group_of(user: str) -> int:
    """Return the primary group of a user."""
    return pwd.getpwnam(user).pw_gid
