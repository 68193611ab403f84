"""What ended jobs have left in the node's own scratch folders stays within its limits."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from checks.declare import Skip, check, code, ok
from checks.fs.mounts import holding, kept, mounts
from checks.host import Host
from checks.wire import Finding

LEFT = code(
    "scratch_not_clean",
    "warn",
    "job",
    "{entries} files and folders ({gib:.1f} GiB) of {users} users who run nothing here, limits {max_entries} and "
    "{max_gib:g} GiB",
    explain="The next job finds less room, in /dev/shm less memory. Confirm: `ls -la <target>`, `du -sh <target>/*`. "
    "Do: let the epilog clean up (job_container/tmpfs gives each job a folder of its own); it drains no node.",
)
AT_MOST = 20_000
PROCESSES = 50_000


@dataclass(frozen=True, slots=True)
class Entry:
    """One file or folder at the top: whose it is, its size in bytes (a folder's content is not walked), its age."""

    uid: int
    size: int
    age: float


@check(lane="fs", interval=600, timeout=5.0, each="paths", codes=(LEFT,))
def scratch(
    host: Host,
    *,
    paths: tuple[str, ...] = ("/dev/shm",),
    max_entries: int = 1000,
    max_gib: float = 1.0,
    min_hours: float = 1.0,
    min_uid: int = 1000,
) -> Iterator[Finding]:
    """The top of each folder, 20,000 names at most: what belongs to users without a process or a job here counts.

    What was touched within ``min_hours`` and what belongs to accounts below ``min_uid`` is left out. Nothing is opened,
    followed or removed, and a folder on a shared file system is not looked at.
    Confirm by hand: ``ls -la /dev/shm /tmp``.

    ``paths``: the folders. ``max_entries`` and ``max_gib``: what may be left in each.
    """
    if not paths:
        raise Skip("no folder is named")
    if kept(host):
        raise Skip("what users left is not kept in a tree")
    for path in paths:
        mounted = holding(path, mounts(host))
        if mounted is not None and mounted.network:
            raise Skip(f"{path} lies on a shared file system")
        try:
            entries = list(_entries(host, path))
        except FileNotFoundError as error:
            raise Skip(f"{path} does not exist") from error
        candidates = [e for e in entries if e.uid >= min_uid and e.age >= min_hours * 3600]
        busy = _busy(host) if candidates else frozenset[int]()
        yield judge(path, [e for e in candidates if e.uid not in busy], max_entries=max_entries, max_gib=max_gib)


def judge(path: str, left: Iterable[Entry], *, max_entries: int, max_gib: float) -> Finding:
    """Whether what is left is too much."""
    entries, size, users = 0, 0, set()
    for entry in left:
        entries += 1
        size += entry.size
        users.add(entry.uid)
    gib = size / 1024**3
    if entries <= max_entries and gib <= max_gib:
        return ok(path, f"{entries} entries left by others", entries=entries, gib=round(gib, 2))
    return LEFT(path, entries=entries, gib=round(gib, 2), users=len(users), max_entries=max_entries, max_gib=max_gib)


def _entries(host: Host, path: str) -> Iterator[Entry]:
    now = host.now().timestamp()
    with os.scandir(host.path(path)) as names:
        for count, name in enumerate(names):
            if count >= AT_MOST:
                return
            try:
                about = name.stat(follow_symlinks=False)
            except OSError:
                continue
            size = 0 if stat.S_ISDIR(about.st_mode) else about.st_blocks * 512
            yield Entry(about.st_uid, size, now - max(about.st_mtime, about.st_ctime))


def _busy(host: Host) -> frozenset[int]:
    """Who runs something here, or is about to: the owners of processes and of the job that a hook speaks of."""
    owners = {host.job.uid} if host.job is not None and host.job.uid is not None else set()
    for name in os.listdir(host.path("/proc"))[:PROCESSES]:
        if name.isdecimal():
            try:
                owners.add(os.stat(host.path(f"/proc/{name}")).st_uid)
            except OSError:
                continue
    return frozenset(owners)
