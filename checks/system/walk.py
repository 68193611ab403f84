"""The node's processes are walked once for all checks that ask about them at the same moment."""

from __future__ import annotations

import os
from dataclasses import dataclass

from checks.host import Host

PROCESSES_LIMIT = 200_000
STAT_LIMIT = 1024


@dataclass(frozen=True, slots=True)
class Process:
    """One process: its name (15 bytes, its user's choice), its state letter, its start in ticks since boot."""

    pid: int
    comm: bytes
    state: bytes
    start: int


@dataclass(slots=True)
class _Walk:
    look: int = 0
    found: tuple[Process, ...] = ()


def processes(host: Host) -> tuple[Process, ...]:
    """All processes but those that ended since they were listed; within one look at the node the same ones."""
    walk = host.kept("walk of processes", _Walk)
    if host.look and walk.look == host.look:
        return walk.found
    # Kept only for its own look: a list of 20,000 is not held between rounds.
    root = str(host.path("/proc"))
    names = _own(root) if host.redirected else os.listdir(root)
    found = tuple(p for name in names[:PROCESSES_LIMIT] if name.isdecimal() and (p := _read(root, name)))
    walk.look, walk.found = (host.look, found) if len(found) <= _KEPT else (0, ())
    return found


_KEPT = 50_000


def _own(root: str) -> list[str]:
    """The folders of a kept tree; a link in their place may lead to a process of the machine that we run on."""
    with os.scandir(root) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def head_of(host: Host, pid: int, name: str, limit: int = STAT_LIMIT) -> bytes:
    """The first bytes of a file of a process, with as few calls as can be: there may be 20,000 of them."""
    return _head(f"{host.once('proc', lambda: str(host.path('/proc')))}/{pid}/{name}", limit)


def _head(path: str, limit: int) -> bytes:
    # Not waiting: in a kept tree a pipe may lie in the place of the file.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        return os.read(descriptor, limit)
    finally:
        os.close(descriptor)


def _read(root: str, name: str) -> Process | None:
    try:
        before, _, after = _head(f"{root}/{name}/stat", STAT_LIMIT).rpartition(b")")
        words = after.split(None, 20)
        return Process(int(name), before.partition(b"(")[2], words[0], int(words[19]))
    except (OSError, IndexError, ValueError):
        return None
