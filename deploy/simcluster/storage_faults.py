"""Faults of a simulated node's disks and of the shared file systems that it uses."""

from __future__ import annotations

from deploy.simcluster.faults import ERROR, WARNING, Effects, Site, fault
from deploy.simcluster.tree import proc, storage


@fault
def mount_missing(site: Site, *, path: str = "/scratch") -> Effects:
    """A file system that jobs need is not mounted."""
    return Effects(files=dict(proc.mounts((), without=path)))


@fault
def mount_read_only(site: Site, *, path: str = "/") -> Effects:
    """The kernel has made a file system read-only."""
    said = [(ERROR, "EXT4-fs (sda2): Remounting filesystem read-only")] if path == "/" else []
    return Effects(files=dict(proc.mounts((), read_only=path)), kernel=said)


@fault
def nvme_dead(site: Site, *, disk: int = 3) -> Effects:
    """The kernel has given an NVMe disk up."""
    text = f"nvme nvme{disk}: Removing after probe failure status: -19"
    return Effects(files=storage.nvme(disk, site.identity, "dead"), kernel=[(ERROR, text)])


@fault
def nvme_worn(site: Site, *, disk: int = 3, used: int = 104, critical_warning: int = 0) -> Effects:
    """An NVMe disk has used up its rated life, or warns of itself."""
    return Effects(files=storage.smart_log(disk, percent_used=used, critical_warning=critical_warning))


@fault
def raid_degraded(site: Site) -> Effects:
    """A mirror has lost one of its two disks."""
    text = "md/raid1:md0: Disk failure on sdb2, disabling device."
    return Effects(files={"proc/mdstat": storage.mdstat(failed=True)}, kernel=[(ERROR, text)])


@fault
def lustre_evicted(site: Site, *, server: str = "OST0001") -> Effects:
    """A Lustre server throws this client out, which is let in again at once."""
    name = f"scratch-{server}"
    text = f"LustreError: 167-0: {name}-osc-{storage.CLIENT}: This client was evicted by {name}; in progress operations"
    more = " - [ 1764590000, EVICTED ]\n - [ 1764590001, FULL ]\n"
    return Effects(files=storage.connection(server, more=more), kernel=[(WARNING, text)])


@fault
def lustre_lost(site: Site, *, server: str = "OST0001") -> Effects:
    """A Lustre server is gone; healing connects it again."""
    name = f"scratch-{server}"
    place = f"Lustre: {name}-osc-{storage.CLIENT}"
    return Effects(
        files=storage.connection(server, "DISCONN"),
        kernel=[(WARNING, f"{place}: Connection to {name} (at 10.0.0.6@o2ib) was lost; in progress operations wait")],
        kernel_healed=[(WARNING, f"{place}: Connection restored to {name} (at 10.0.0.6@o2ib)")],
    )


@fault
def nfs_silent(site: Site, *, server: str = "storage") -> Effects:
    """The file server of /home answers nothing that is sent to it; healing brings it back."""
    return Effects(
        files={"proc/1/mountstats": storage.mountstats(sent=5040)},
        kernel=[(WARNING, f"nfs: server {server} not responding, still trying")],
        kernel_healed=[(WARNING, f"nfs: server {server} OK")],
    )
