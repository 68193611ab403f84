"""The shared file systems that the site names have space and inodes left."""

from __future__ import annotations

import os
from collections.abc import Iterator

from checks.declare import Skip, check, code
from checks.fs.mounts import holding, mounts, place
from checks.fs.space import Least, measurable
from checks.host import Host
from checks.wire import Finding

LOW = code(
    "mount_space_low",
    "warn",
    "shared",
    "{free_pct:.1f} % free, limit {min_free_pct:g} %",
    explain="Many nodes will say the same. Confirm: `df -h <path>`, `lfs df -h <path>`. Do: clean up at the server.",
)
INODES = code(
    "mount_inodes_low",
    "warn",
    "shared",
    "{free_pct:.1f} % of the inodes free, limit {min_free_pct:g} %",
    explain="Confirm: `df -i <path>`. Do: find who keeps many small files there.",
)


@check(lane="fs", scope="shared", interval=600, timeout=5.0, each="paths", codes=(LOW, INODES))
def mount_space(
    host: Host, *, paths: tuple[str, ...] = (), min_free_pct: float = 2.0, min_free_inodes_pct: float = 2.0
) -> Iterator[Finding]:
    """Free bytes and inodes in percent of each named path and of no other, as an ordinary user has them.

    Local disks are left to ``disk_space``; whether it answers at all is told by ``mount``.
    Confirm by hand: ``df -h <path>``, ``df -i <path>``.

    ``paths``: where to look, each in a question of its own. ``min_free_pct`` and ``min_free_inodes_pct``: what must
    be free there.
    """
    measurable(host, paths)
    for path in paths:
        known = mounts(host)
        where = place(host, path, known)
        if holding(where, known) is None:
            raise Skip(f"nothing is mounted at {path}")
        try:
            space = os.statvfs(host.path(where))
        except OSError as error:
            raise Skip(f"{path} cannot be measured ({error.strerror}), see mount") from error
        yield from Least(LOW, INODES, min_free_pct, min_free_inodes_pct).judge(path, space)
