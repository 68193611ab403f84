"""Shared memory is mounted, large enough and not full, and the folders everybody writes to are safe to share."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from checks.declare import check, code, ok
from checks.fs.mounts import AUTOFS, Mount, holding, mounts, place
from checks.host import Host
from checks.wire import Finding

SHM = "/dev/shm"
ABSENT = code(
    "shm_absent",
    "warn",
    "config",
    "no tmpfs is mounted here",
    explain="Programs that share memory (NCCL, MPI, PyTorch's loaders) fail or write to a disk. "
    "Confirm: `findmnt /dev/shm`. Do: mount it; see /etc/fstab.",
)
SMALL = code(
    "shm_small",
    "warn",
    "config",
    "{gib:g} GiB, expected at least {min_gib:g}",
    explain="Confirm: `df -h /dev/shm`. Do: `mount -o remount,size=<size> /dev/shm`, and set it in /etc/fstab.",
)
FULL = code(
    "shm_full",
    "warn",
    "job",
    "{used_pct:.0f} % used, limit {limit_pct:g} %",
    explain="Files that jobs left behind take the memory of the next. Anybody can fill it, so it never drains. "
    "Confirm: `df -h /dev/shm`, `ls -la /dev/shm`. Do: clean it in the epilog when no job of their owner is left.",
)
MODE = code(
    "folder_mode_wrong",
    "warn",
    "config",
    "mode is {mode}, expected {expected}",
    explain="Without write permission for all, programs fail; without the sticky bit users remove each other's files. "
    "Confirm: `stat -c '%a %U' /tmp /var/tmp /dev/shm`. Do: `chmod 1777 <folder>`.",
)
EXPECTED = 0o1777


@check(lane="system", interval=300, timeout=3.0, codes=(ABSENT, SMALL, FULL, MODE))
def temporary(
    host: Host,
    *,
    min_gib: float = 0.0,
    max_used_pct: float = 90.0,
    folders: tuple[str, ...] = ("/tmp", "/var/tmp", SHM),
) -> Iterator[Finding]:
    """/dev/shm is a tmpfs of at least ``min_gib`` with room left, and each of ``folders`` has mode 1777.

    A folder that does not exist is not judged, nor are modes in a tree that somebody copied, which seldom keeps them.
    Confirm by hand: ``findmnt /dev/shm``, ``df -h /dev/shm``, ``stat -c %a /tmp``.

    ``max_used_pct``: how full /dev/shm may be.
    """
    known = mounts(host)
    mounted = known.get(SHM)
    if mounted is None or mounted.kind != "tmpfs":
        yield ABSENT(SHM)
    elif os.path.ismount(real := host.path(SHM)):
        # Of a copied or simulated tree only what really is a mount is measured.
        yield _room(os.statvfs(real), min_gib, max_used_pct)
    if host.redirected and not host.simulated:
        return
    for folder in folders:
        seen = _stat(host, folder, known)
        if seen is not None and (mode := stat.S_IMODE(seen.st_mode)) != EXPECTED:
            yield MODE(folder, mode=f"{mode:o}", expected=f"{EXPECTED:o}", uid=seen.st_uid)


def _room(space: os.statvfs_result, min_gib: float, max_used_pct: float) -> Finding:
    gib = round(space.f_blocks * space.f_frsize / 1024**3, 1)
    used = 100.0 * (space.f_blocks - space.f_bfree) / space.f_blocks if space.f_blocks else 0.0
    if gib < min_gib:
        return SMALL(SHM, gib=gib, min_gib=min_gib)
    if used > max_used_pct:
        return FULL(SHM, used_pct=round(used, 1), limit_pct=max_used_pct, gib=gib)
    return ok(SHM, f"{used:.0f} % of {gib:g} GiB used", used_pct=round(used, 1), gib=gib)


def _stat(host: Host, folder: str, known: dict[str, Mount]) -> os.stat_result | None:
    """None where there is none, or where a server would have to be asked: that may take for ever."""
    where = place(host, folder, known)
    upon = holding(where, known)
    if upon is not None and (upon.network or upon.kind == AUTOFS):
        return None
    try:
        return os.stat(host.path(where))
    except FileNotFoundError:
        return None
