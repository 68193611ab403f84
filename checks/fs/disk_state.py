"""Every SATA and SAS disk is in the kernel's use, counts few errors, and no disk array has lost a path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from checks.declare import Skip, check, code, ok
from checks.growth import Counters, counters
from checks.host import Host
from checks.wire import Finding

OFFLINE = code(
    "disk_offline",
    "warn",
    "node",
    "disk is {state}, expected running",
    explain="The kernel gave it up after errors; what lies on it has a finding of its own. "
    "Confirm: `cat /sys/block/<target>/device/state`, `dmesg | grep <target>`. Do: reseat or replace the disk.",
)
ERRORS = code(
    "disk_io_errors",
    "warn",
    "node",
    "{errors} commands failed within {hours:g} h, limit {limit}",
    explain="Confirm: `cat /sys/block/<target>/device/ioerr_cnt` twice, `smartctl -a /dev/<target>`. "
    "Do: look at cable and backplane, plan a replacement of the disk.",
)
PATHS = code(
    "disk_paths_lost",
    "warn",
    "fabric",
    "{present} of {paths} paths to the disk array work",
    explain="The array is still reached over the others. Confirm: `multipath -ll`, "
    "`grep . /sys/block/<target>/slaves/*/device/state`. Do: look at adapter, cable and switch of the lost path.",
)
SUSPENDED = code(
    "disk_suspended",
    "warn",
    "node",
    "device {name} is suspended since at least {seconds:.0f} s: whoever uses it waits",
    explain="Somebody's change of a logical volume did not come to its end. Confirm: `dmsetup info <name>`. "
    "Do: `dmsetup resume <name>` once you know why.",
)
HOUR = 3600.0
LIMIT = 1024
_DISK = re.compile(r"sd[a-z]{1,4}")
_MAPPED = re.compile(r"dm-\d{1,5}")
_GOOD = frozenset({"running", "live", "created"})
# A target that lets nobody in (a freeze, a snapshot being made) is resumed within moments.
SUSPENDED_AFTER = 120.0


@check(lane="system", interval=300, timeout=2.0, codes=(OFFLINE, ERRORS, PATHS, SUSPENDED))
def disk_state(host: Host, *, errors_per_hour: int = 50, paths: int = 0) -> Iterator[Finding]:
    """State and failed commands of each fixed disk, and paths of each multipath device, as sysfs has them.

    Removable and virtual disks of a BMC are left out. Some failed commands are questions that a disk does not know,
    so they count by the hour; the limit is ours. ``paths``: how many each array should have, 0 = as many as it has.
    Confirm by hand: ``grep . /sys/block/sd*/device/state``.

    ``errors_per_hour``: failed commands of one disk.
    """
    found = [p for p in host.glob("/sys/block/*") if _DISK.fullmatch(p.name) or _MAPPED.fullmatch(p.name)][:LIMIT]
    if not found:
        raise Skip("no SATA, SAS or mapped disk")
    judged, watched = 0, counters(host, "disk_state")
    mapped = [p for p in found if _MAPPED.fullmatch(p.name)]
    # One path of several to an array is no disk of the node: what is lost with it the array's own line tells.
    ways = {s.name for p in mapped if _array(host, p) for s in _slaves(host, p)}
    for path in mapped:
        yield from _mapped(host, path, paths)
    for path in found:
        if path not in mapped and path.name not in ways and _fixed(host, path):
            judged += 1
            yield from _disk(host, path, watched, errors_per_hour)
    host.keep("counters", watched.plain())
    yield ok("node", f"{judged} fixed disks", disks=judged)


def _fixed(host: Host, path: Path) -> bool:
    try:
        removable = host.read(path / "removable").strip() == "1"
    except OSError:
        return False
    return not removable and "/usb" not in str(path.resolve())


def _disk(host: Host, path: Path, watched: Counters, limit: int) -> Iterator[Finding]:
    if (state := _text(host, path / "device/state")) and state not in _GOOD:
        yield OFFLINE(path.name, state=state)
    text = _text(host, path / "device/ioerr_cnt")
    if re.fullmatch(r"0x[0-9a-f]{1,16}", text):
        grown = watched.of(path.name).over(host.clock(), int(text, 16), HOUR)
        if grown.beyond(limit, HOUR):
            yield ERRORS(path.name, errors=grown.count, hours=max(1, round(grown.seconds / HOUR, 1)), limit=limit)


def _mapped(host: Host, path: Path, wanted: int) -> Iterator[Finding]:
    name = _text(host, path / "dm/name") or path.name
    since = host.kept("disk_state suspended", dict[str, float])
    if _text(host, path / "dm/suspended") == "1":
        waited = host.clock() - since.setdefault(path.name, host.clock())
        if waited >= SUSPENDED_AFTER:
            yield SUSPENDED(path.name, name=name, seconds=waited)
    else:
        since.pop(path.name, None)
    if not _array(host, path):
        return
    slaves = _slaves(host, path)
    working = sum(1 for s in slaves if _text(host, s / "device/state") in ("", *_GOOD))
    if working < max(len(slaves), wanted):
        yield PATHS(path.name, present=working, paths=max(len(slaves), wanted), name=name)


def _array(host: Host, path: Path) -> bool:
    return _text(host, path / "dm/uuid").startswith("mpath-")


def _slaves(host: Host, path: Path) -> list[Path]:
    return host.glob(f"/sys/block/{path.name}/slaves/*")


def _text(host: Host, path: Path) -> str:
    try:
        return host.read(path).strip()
    except OSError:
        return ""
