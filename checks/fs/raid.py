"""Every software RAID array has all its disks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.wire import Finding

DEGRADED = code(
    "raid_degraded",
    "warn",
    "node",
    "{present} of {disks} disks work{state}",
    explain="The data is there still; the next disk may take it along. Confirm: `mdadm --detail /dev/<array>`, "
    "`cat /proc/mdstat`. Do: replace the disk that failed.",
)
BROKEN = code(
    "raid_broken",
    "warn",
    "node",
    "array is {state}, {failed} disks failed",
    explain="Whoever needs what was on it sees errors, and the mount there has a finding of its own. "
    "Confirm: `cat /proc/mdstat`, `dmesg | grep md/`. Do: replace the disk, make the array anew.",
)
ABSENT = code(
    "raid_absent",
    "warn",
    "config",
    "array is not assembled, expected by the site",
    explain="Confirm: `cat /proc/mdstat`, `mdadm --examine --scan`. Do: `mdadm --assemble --scan`.",
)
_ARRAY = re.compile(
    r"^(md[\w/-]{1,64}) : (active|inactive|broken)(?: \((?:auto-)?read-only\))?(?: (raid\d{1,2}|linear))?(.*)$"
)
_COUNTS = re.compile(r"\[(\d{1,4})/(\d{1,4})\] \[[U_]{1,4096}\]")
_REPAIR = re.compile(r"\b(recovery|resync|reshape|check)\s*=\s*([\d.]{1,6})%")


@check(lane="system", interval=120, timeout=2.0, codes=(DEGRADED, BROKEN, ABSENT))
def raid(host: Host, *, arrays: tuple[str, ...] = ()) -> Iterator[Finding]:
    """The kernel's own table of arrays; a check or a resync of a whole one is no fault, ``arrays`` must be there.

    A container of firmware's arrays (Intel VROC, DDF) is always shown as inactive, and is none.
    Confirm by hand: ``cat /proc/mdstat``.
    """
    try:
        lines = host.read("/proc/mdstat").splitlines()
    except FileNotFoundError:
        if not arrays:
            raise Skip("no software RAID in this kernel") from None
        lines = []
    found = [(m, lines[i + 1 : i + 4]) for i, line in enumerate(lines) if (m := _ARRAY.match(line))]
    if not found and not arrays:
        raise Skip("no software RAID array")
    for name in arrays:
        if name.removeprefix("/dev/") not in {match[1] for match, _ in found}:
            yield ABSENT(name)
    for match, below in found:
        yield _judge(match, " ".join(line for line in below if line.startswith(" ")))


def _judge(match: re.Match[str], below: str) -> Finding:
    name, active, level, members = match.groups()
    failed = members.count("(F)")
    counts = _COUNTS.search(below)
    if active == "inactive" and "super external:" in below and members.count("(S)") == members.count("["):
        return ok(name, "container of arrays that firmware knows", disks=members.count("["))
    if active != "active" or (level in ("raid0", "linear") and failed):
        return BROKEN(name, state=active, failed=failed, level=level or "unknown")
    if counts and int(counts[2]) < int(counts[1]):
        repair = _REPAIR.search(below)
        state = f", {repair[1]} at {repair[2]} %" if repair else ", no repair runs"
        return DEGRADED(name, present=int(counts[2]), disks=int(counts[1]), state=state, level=level or "unknown")
    return ok(name, f"{level or 'array'} is whole", failed=failed)
