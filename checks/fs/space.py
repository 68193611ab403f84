"""How much of a file system is left for an ordinary user, judged alike for disks and for shared file systems."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from checks.declare import Code, Skip, ok
from checks.fs.mounts import kept
from checks.host import Host
from checks.wire import Finding


def measurable(host: Host, paths: tuple[str, ...]) -> None:
    """Skip where there is nothing to measure."""
    if not paths:
        raise Skip("no path is named")
    if kept(host):
        raise Skip("free space cannot be seen in a kept tree")


@dataclass(frozen=True, slots=True)
class Least:
    """What must be free of bytes and of inodes, in percent, and with which code less of it is told."""

    low: Code
    inodes_low: Code
    pct: float
    inodes_pct: float

    def judge(self, path: str, space: os.statvfs_result) -> Iterator[Finding]:
        """A file system that tells no total (proc, btrfs, some servers) has none to run out of."""
        free = 100.0 * space.f_bavail / space.f_blocks if space.f_blocks else 100.0
        inodes = 100.0 * space.f_favail / space.f_files if space.f_files else 100.0
        if free < self.pct:
            yield self.low(path, free_pct=round(free, 2), min_free_pct=self.pct)
        if inodes < self.inodes_pct:
            yield self.inodes_low(path, free_pct=round(inodes, 2), min_free_pct=self.inodes_pct)
        if free >= self.pct and inodes >= self.inodes_pct:
            yield ok(path, f"{free:.0f} % free", free_pct=round(free, 1), free_inodes_pct=round(inodes, 1))
