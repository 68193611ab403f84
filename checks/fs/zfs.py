"""Every ZFS pool is online with all its disks."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.wire import Finding

DEGRADED = code(
    "zfs_degraded",
    "warn",
    "node",
    "pool is {state}, expected ONLINE",
    explain="The data is there still; the next disk may take it along. Confirm: `zpool status <target>`. "
    "Do: replace the disk that failed.",
)
BROKEN = code(
    "zfs_broken",
    "warn",
    "node",
    "pool is {state}, expected ONLINE",
    explain="Whoever needs what is on it waits or sees errors, and the mount there has a finding of its own. "
    "Confirm: `zpool status -v <target>`. Do: bring its disks back, `zpool clear <target>`.",
)
ABSENT = code(
    "zfs_pool_absent",
    "warn",
    "config",
    "pool is not imported, expected by the site",
    explain="Confirm: `zpool list`, `zpool import`. Do: import it.",
)
POOLS = "/proc/spl/kstat/zfs"
_GOOD = frozenset({"ONLINE"})
_HURT = frozenset({"DEGRADED"})
_GONE = frozenset({"FAULTED", "UNAVAIL", "SUSPENDED", "OFFLINE", "REMOVED"})


@check(lane="system", interval=300, timeout=2.0, codes=(DEGRADED, BROKEN, ABSENT))
def zfs(host: Host, *, pools: tuple[str, ...] = ()) -> Iterator[Finding]:
    """State of each imported pool by the module's own table (OpenZFS 0.8 and later); ``pools`` must be imported.

    A resilver is no fault. Confirm by hand: ``zpool status -x``, ``cat /proc/spl/kstat/zfs/*/state``.
    """
    states = {path.parent.name: host.read(path).strip() for path in host.glob(f"{POOLS}/*/state")}
    if not states and not pools:
        raise Skip("no ZFS pool")
    for pool in pools:
        if pool not in states:
            yield ABSENT(pool)
    for pool, state in states.items():
        if state in _HURT:
            yield DEGRADED(pool, state=state)
        elif state in _GONE:
            yield BROKEN(pool, state=state)
        elif state in _GOOD:
            yield ok(pool, "pool is ONLINE")
        else:
            raise ValueError(f"pool {pool} has a state nobody knows: {state[:40]!r}")
