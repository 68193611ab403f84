"""Every volume group that the site names has all its disks, and its volumes are healthy."""

from __future__ import annotations

import json
from collections.abc import Iterator

from checks.declare import Skip, check, code, ok
from checks.host import Host, NotRecorded
from checks.wire import Finding

ABSENT = code(
    "lvm_group_absent",
    "warn",
    "config",
    "no volume of this group is known, expected by the site",
    explain="Confirm: `vgs`, `pvs`. Do: activate it, `vgchange -ay <target>`.",
)
UNHEALTHY = code(
    "lvm_unhealthy",
    "warn",
    "node",
    "volume {volume} is {health}",
    explain="A disk of the group is gone or a copy no longer agrees. Confirm: `lvs -a -o +lv_health_status <target>`, "
    "`pvs`. Do: replace the disk, `lvconvert --repair`.",
)
UNASKED = code(
    "lvm_unasked",
    "unknown",
    "self",
    "volumes could not be listed: {error}",
    explain="It says nothing about the disks. Confirm: `lvs`. Do: look why it does not answer.",
)
_LIST = ["lvs", "--readonly", "--reportformat", "json", "-o", "vg_name,lv_name,lv_attr,lv_health_status"]


@check(lane="lvm", cost="active", interval=3600, timeout=5.0, each="groups", codes=(ABSENT, UNHEALTHY, UNASKED))
def lvm(host: Host, *, groups: tuple[str, ...] = ()) -> Iterator[Finding]:
    """What ``lvs`` says of each named group; it reads disks, so it is asked only where the site names a group.

    Confirm by hand: ``lvs -a -o +lv_health_status``.

    ``groups``: the volume groups, by name.
    """
    if not groups:
        raise Skip("no volume group is named")
    try:
        report = json.loads(host.run(_LIST, timeout=4.0))
        rows = [row for part in report["report"] for row in part["lv"]]
        known = [(str(r["vg_name"]), str(r["lv_name"]), str(r["lv_attr"]), str(r["lv_health_status"])) for r in rows]
    except (FileNotFoundError, NotRecorded):
        raise Skip("lvm2 is not installed") from None
    except (OSError, TimeoutError, ValueError, KeyError, TypeError) as error:
        yield UNASKED("node", error=f"{type(error).__name__}: {error}"[:120])
        return
    for group in groups:
        mine = [(name, attributes, health) for owner, name, attributes, health in known if owner == group]
        if not mine:
            yield ABSENT(group)
            continue
        ill = [(n, h or "partial") for n, a, h in mine if h or a[8:9] == "p"]
        for name, health in ill:
            yield UNHEALTHY(group, volume=name, health=health)
        if not ill:
            yield ok(group, f"{len(mine)} volumes are healthy", volumes=len(mine))
