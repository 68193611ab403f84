"""The node has the swap that the site wants, or none where it wants none."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.wire import Finding

ABSENT = code(
    "swap_low",
    "warn",
    "config",
    "{gib:.1f} GiB of swap, expected at least {min_gib:g} GiB",
    explain="Confirm: `swapon --show`, /etc/fstab. Do: `swapon -a`.",
)
UNWANTED = code(
    "swap_unwanted",
    "warn",
    "config",
    "{gib:.1f} GiB of swap on {devices}, expected none",
    explain="A job that swaps slows down all its other nodes. Confirm: `swapon --show`. Do: `swapoff -a`, /etc/fstab.",
)


@check(lane="system", interval=600, timeout=2.0, codes=(ABSENT, UNWANTED))
def swap(host: Host, *, min_gib: float = 0.0, forbidden: bool = False) -> Iterator[Finding]:
    """Swap areas in use as the kernel lists them, against what is asked for; how full they are ``pressure`` tells.

    Compressed memory (zram) is no disk and is left out. Confirm by hand: ``swapon --show``.

    ``min_gib``: the least, 0 asks for none. ``forbidden``: none may be in use.
    """
    if not min_gib and not forbidden:
        raise Skip("nothing is asked of swap")
    areas = [line.split() for line in host.read("/proc/swaps").splitlines()[1:] if line.strip()]
    disks = [(area[0], int(area[2])) for area in areas if not area[0].startswith("/dev/zram")]
    gib = sum(kib for _, kib in disks) / 1024**2
    if forbidden and disks:
        yield UNWANTED("swap", gib=round(gib, 2), devices=", ".join(name for name, _ in disks))
    elif not forbidden and gib < min_gib * 0.99:
        yield ABSENT("swap", gib=round(gib, 2), min_gib=min_gib)
    else:
        yield ok("swap", f"{gib:.1f} GiB of swap", gib=round(gib, 2))
