"""Every NVMe disk is there and alive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from checks.declare import Skip, check, code
from checks.host import Host
from checks.wire import Finding

COUNT = code(
    "nvme_count_low",
    "fail",
    "node",
    "{count} NVMe disks, expected {expected}",
    explain="Confirm: `nvme list`, `lspci -d ::0108`. Do: power-cycle the node, reseat or replace the disk.",
)
DEAD = code(
    "nvme_not_live",
    "fail",
    "node",
    "controller is {state}, expected live",
    explain="The kernel has given it up or is resetting it. Confirm: `cat /sys/class/nvme/<target>/state`, `dmesg | "
    "grep nvme`. Do: power-cycle the node, replace the disk.",
)
CLASS = "/sys/class/nvme"
# The kernel's words (nvme_sysfs_show_state); any other was not read rightly.
_STATES = frozenset({"new", "live", "resetting", "connecting", "deleting", "deleting (no IO)", "dead"})


@check(lane="system", interval=120, timeout=2.0, codes=(COUNT, DEAD))
def nvme(host: Host, *, count: int = 0) -> Iterator[Finding]:
    """State of each local controller as the kernel has it; ``count`` comes from the profile or the site.

    Confirm by hand: ``grep . /sys/class/nvme/*/state``.
    """
    found = disks(host)
    if len(found) < count:
        yield COUNT("node", count=len(found), expected=count)
    elif not found:
        raise Skip("no NVMe disk")
    silent: Exception | None = None
    for path in found:
        try:
            state = host.read(path / "state").strip()
        except OSError as error:
            silent = error
            continue
        if state not in _STATES:
            silent = ValueError(f"state {state[:32]!r} of {path.name} is none of the kernel's")
        elif state != "live":
            yield DEAD(path.name, state=state)
    if silent is not None:
        raise silent


def disks(host: Host) -> list[Path]:
    """Controllers of this node's own disks; those of remote ones (TCP, RDMA) are their servers'."""
    return [p for p in host.glob(f"{CLASS}/nvme*") if p.name[4:].isdecimal() and _local(host, p)]


def _local(host: Host, path: Path) -> bool:
    try:
        return host.read(path / "transport").strip() == "pcie"
    except OSError:
        return True
