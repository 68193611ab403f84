"""The node's own disks can be written and have space and inodes left."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from checks.declare import Skip, check, code
from checks.fs.mounts import Mount, holding, mounts, place
from checks.fs.space import Least, measurable
from checks.host import Host
from checks.wire import Finding

LOW = code(
    "disk_space_low",
    "warn",
    "node",
    "{free_pct:.1f} % free, limit {min_free_pct:g} %",
    explain="Anybody can fill a disk, so it never drains by itself. Confirm: `df -h <path>`. "
    "Do: clean up; give jobs a directory of their own.",
)
INODES = code(
    "disk_inodes_low",
    "warn",
    "node",
    "{free_pct:.1f} % of the inodes free, limit {min_free_pct:g} %",
    explain="Confirm: `df -i <path>`. Do: find the directory with many small files.",
)
TURNED_READ_ONLY = code(
    "disk_turned_read_only",
    "fail",
    "node",
    "file system on {source} became read-only while we watched",
    explain="The kernel does this after errors of the disk. Confirm: `dmesg | grep -i remount`, `smartctl -a <disk>`. "
    "Do: let jobs end, check the file system, replace the disk if it returns.",
)
READ_ONLY = code(
    "disk_read_only",
    "warn",
    "config",
    "file system on {source} is read-only",
    explain="It was mounted so. Confirm: `findmnt -o OPTIONS <path>`. Do: mount it writable, or take it out of "
    "``paths``.",
)
BROKEN = code(
    "disk_broken",
    "fail",
    "node",
    "disk does not answer: {error}",
    explain="Confirm: `dmesg | grep -i 'i/o error'`, `smartctl -a <disk>`. Do: replace the disk.",
)
_IMAGES = frozenset({"squashfs", "erofs", "cramfs", "iso9660", "romfs", "udf"})
_BROKEN = frozenset({errno.EIO, errno.ENXIO, errno.EUCLEAN, errno.ENODEV})


@check(lane="fs", interval=60, timeout=5.0, each="paths", codes=(LOW, INODES, TURNED_READ_ONLY, READ_ONLY, BROKEN))
def disk_space(
    host: Host, *, paths: tuple[str, ...] = ("/",), min_free_pct: float = 5.0, min_free_inodes_pct: float = 5.0
) -> Iterator[Finding]:
    """Free bytes and inodes in percent, as an ordinary user has them, of each local path; nothing is written.

    Remote file systems are left to ``mount``. Confirm by hand: ``df -h``, ``df -i``, ``findmnt``.

    ``paths``: where to look, each in a question of its own. ``min_free_pct`` and ``min_free_inodes_pct``: what must
    be free there.
    """
    measurable(host, paths)
    for path in paths:
        yield from _judge(host, path, Least(LOW, INODES, min_free_pct, min_free_inodes_pct))


def by_hand(host: Host, mounted: Mount) -> bool:
    """Whether it was a person who made it read-only, for a maintenance: ext4 counts each error after which it does so
    itself. A file system that does not say so is believed to have met one."""
    name = mounted.source.removeprefix("/dev/")
    if mounted.kind not in ("ext3", "ext4") or "/" in name:
        return False
    try:
        return host.count(f"/sys/fs/ext4/{name}/errors_count") == 0
    except (OSError, ValueError):
        return False


def _judge(host: Host, path: str, least: Least) -> Iterator[Finding]:
    known = mounts(host)
    where = place(host, path, known)
    mounted = holding(where, known)
    if mounted is not None and mounted.network:
        raise Skip(f"{path} is no local file system, see mount")
    if mounted is not None and mounted.kind in _IMAGES:
        raise Skip(f"{path} lies on a read-only image ({mounted.kind}), which is always full")
    try:
        space = os.statvfs(host.path(where))
    except FileNotFoundError as error:
        raise Skip(f"{path} does not exist") from error
    except OSError as error:
        if error.errno not in _BROKEN:
            raise
        yield BROKEN(path, error=error.strerror or str(error))
        return
    if mounted is not None:
        seen_writable = host.kept("disk_space", set[tuple[str, str]])
        this = (mounted.where, mounted.source)
        if not mounted.read_only:
            seen_writable.add(this)
        else:
            turned = this in seen_writable and not by_hand(host, mounted)
            yield (TURNED_READ_ONLY if turned else READ_ONLY)(path, source=mounted.source)
    yield from least.judge(path, space)
