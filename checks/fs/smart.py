"""No SATA or SAS disk says of itself that it fails, and none loses sectors."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from checks.declare import Skip, check, code, ok
from checks.growth import Counters, counters
from checks.host import Host, NotRecorded
from checks.wire import Finding

FAILING = code(
    "disk_failing",
    "warn",
    "node",
    "disk says of itself that it fails",
    explain="Confirm: `smartctl -H -A /dev/<target>`. Do: replace the disk. A job may not need it: it drains nothing.",
)
SECTORS = code(
    "disk_sectors_lost",
    "warn",
    "node",
    "{what}: {errors} new within {hours:g} h, {total} in its life",
    explain="Confirm: `smartctl -A /dev/<target>` twice. Do: plan a replacement of the disk.",
)
UNASKED = code(
    "disk_unasked",
    "unknown",
    "self",
    "its own record could not be read: {error}",
    explain="It says nothing about the disk. Confirm: `smartctl -a <disk>`. Do: update smartmontools, or name it "
    "in ``ignore``.",
)
DAY = 86400.0
# What is counted, by the number of a SATA disk's attribute; other counters mean something else for each maker.
_ATTRIBUTES = {5: "sectors replaced", 197: "sectors that wait to be replaced", 198: "sectors that cannot be read"}
AT_ONCE = 16


@check(lane="smart", cost="active", interval=3600, timeout=5.0, codes=(FAILING, SECTORS, UNASKED))
def smart(host: Host, *, ignore: tuple[str, ...] = ()) -> Iterator[Finding]:
    """The disk's own verdict and its lost sectors, asked with ``smartctl`` where it is installed, 16 disks a round.

    A disk that sleeps is not woken. The exit status of smartctl is no verdict (it counts old entries of its log), and
    lost sectors are judged by what came within a day. In a worker of its own: a dying disk keeps the question waiting.
    Confirm by hand: ``smartctl -H -A /dev/sda``.

    ``ignore``: disks that are left out, such as ``sda``.
    """
    found = [p.name for p in host.glob("/sys/block/sd*") if p.name not in ignore and _real(host, p.name)]
    if not found:
        raise Skip("no SATA or SAS disk")
    turn = host.kept("smart turn", lambda: [0])
    first = turn[0] % len(found)
    turn[0] = first + AT_ONCE
    watched = counters(host, "smart")
    for name in (found[first:] + found[:first])[:AT_ONCE]:
        yield from _ask(host, name, watched)
    host.keep("counters", watched.plain())


def _real(host: Host, name: str) -> bool:
    """Whether it is a disk of this node: no stick, no virtual medium of a BMC, no disk of a hypervisor."""
    path = host.path(f"/sys/block/{name}")
    try:
        vendor, removable = host.read(path / "device/vendor"), host.read(path / "removable")
    except OSError:
        return False
    virtual = vendor.strip().upper() in ("QEMU", "VMWARE", "MSFT", "VBOX", "AMI", "GOOGLE", "LIO-ORG")
    return removable.strip() != "1" and "/usb" not in str(path.resolve()) and not virtual


def _ask(host: Host, name: str, watched: Counters) -> Iterator[Finding]:
    try:
        answer = json.loads(host.run(["smartctl", "-j", "-n", "standby", "-H", "-A", f"/dev/{name}"], timeout=3.0))
        if not isinstance(answer, dict):
            raise ValueError("answer is no object")
        figures = _figures(answer)
        passed = answer.get("smart_status", {}).get("passed")
    except (FileNotFoundError, NotRecorded):
        raise Skip("smartmontools are not installed") from None
    except (OSError, TimeoutError, ValueError, KeyError, TypeError, AttributeError) as error:
        yield UNASKED(name, error=f"{type(error).__name__}: {error}"[:120])
        return
    if passed is False:
        yield FAILING(name)
    grown, which = False, _identity(host, name)
    for what, total in figures.items():
        counter = watched.of(f"{name} {which} {what}")
        # What waits to be replaced becomes less when it was: that is no counter that somebody cleared.
        errors = counter.over(host.clock(), max(total, counter.last), DAY).count
        if errors > 0:
            grown = True
            yield SECTORS(name, what=what, errors=errors, hours=DAY / 3600, total=total)
    if passed and not grown:
        yield ok(name, "disk says that it is well")


def _identity(host: Host, name: str) -> str:
    """Another disk under this name brings its own past."""
    try:
        return host.read(f"/sys/block/{name}/device/wwid").strip()[:64]
    except OSError:
        return ""


def _figures(answer: Mapping[str, Any]) -> dict[str, int]:
    """What is counted, by our words; SATA and SAS tell it in different places."""
    figures = {}
    for row in answer.get("ata_smart_attributes", {}).get("table", []):
        if row["id"] in _ATTRIBUTES:
            figures[_ATTRIBUTES[row["id"]]] = int(row["raw"]["value"]) & 0xFFFFFFFF
    if "scsi_grown_defect_list" in answer:
        figures["sectors replaced"] = int(answer["scsi_grown_defect_list"])
    for kind, row in answer.get("scsi_error_counter_log", {}).items():
        if "total_uncorrected_errors" in row:
            figures[f"{kind} errors not corrected"] = int(row["total_uncorrected_errors"])
    return figures
