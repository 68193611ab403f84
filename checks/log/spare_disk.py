"""Whether a disk that left the bus was a spare one, pulled by a person, or one that something here still needs."""

from __future__ import annotations

from checks.fs.mounts import mounts
from checks.host import Host

BLOCK = "/sys/class/block"
# Which disks lie below these is not told by what stands in the list of mounts.
_MANY = frozenset({"zfs", "btrfs", "bcachefs"})
_BUILT = ("dm-", "md")


def nothing_lost(host: Host) -> bool:
    """Whether all that is mounted or swapped to lies on disks that are plainly still there; False where nobody can say.

    Names are of no use: with native multipath an NVMe controller and its disk are numbered apart. A disk that is gone
    has left /sys/class/block, and its file system is still in the list.
    """
    if not any(host.glob(f"{BLOCK}/*")):
        return False
    try:
        known = mounts(host).values()
        swaps = [line.split()[0] for line in host.read("/proc/swaps").splitlines()[1:] if line.startswith("/dev/")]
    except (OSError, ValueError):
        return False
    if any(mount.kind in _MANY for mount in known):
        return False
    sources = {mount.source for mount in known if mount.source.startswith("/dev/")} | set(swaps)
    return all(_there(host, source.removeprefix("/dev/")) for source in sources)


def _there(host: Host, name: str) -> bool:
    return "/" not in name and not name.startswith(_BUILT) and host.path(f"{BLOCK}/{name}").exists()
