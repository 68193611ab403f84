"""Huge pages are set aside and used as the profile asks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.wire import Finding

FEW = code(
    "huge_pages_few",
    "warn",
    "config",
    "{pages} huge pages of {size} are set aside, expected at least {expected}",
    explain="Memory was in pieces when they were asked for. Confirm: `grep . /sys/kernel/mm/hugepages/*/nr_hugepages`. "
    "Do: ask for them at boot (hugepagesz=1G hugepages=N).",
)
TRANSPARENT = code(
    "transparent_huge_pages_wrong",
    "warn",
    "config",
    "transparent huge pages are {found}, expected {expected}",
    explain="Confirm: `cat /sys/kernel/mm/transparent_hugepage/enabled`. Do: boot with transparent_hugepage=<word>.",
)
_SIZES = {"64K": 64, "2M": 2048, "32M": 32_768, "512M": 524_288, "1G": 1_048_576, "16G": 16_777_216}
_PAGES = "/sys/kernel/mm/hugepages"
_WANTED = re.compile(r"(\w{1,8})\s*=\s*(\d{1,12})")


@check(lane="system", interval=600, timeout=2.0, codes=(FEW, TRANSPARENT))
def huge_pages(host: Host, *, pages: tuple[str, ...] = (), transparent: str = "") -> Iterator[Finding]:
    """Pages set aside of each size (``pages = ["1G=16", "2M=512"]``), and ``transparent``: always, madvise or never.

    Nothing is expected unless it is named. Confirm by hand: ``grep Huge /proc/meminfo``.
    """
    if not pages and not transparent:
        raise Skip("no huge page is named")
    bad = False
    for text in pages:
        size, least = _wanted(text)
        found = _pages(host, size)
        if found < least:
            bad = True
            yield FEW(size, pages=found, size=size, expected=least)
    if transparent and (state := _transparent(host)) != transparent:
        bad = True
        yield TRANSPARENT("node", found=state, expected=transparent)
    if not bad:
        yield ok("node", "huge pages as expected")


def _wanted(text: str) -> tuple[str, int]:
    parts = _WANTED.fullmatch(text.strip())
    if parts is None or parts[1].upper() not in _SIZES:
        raise ValueError(f"no huge pages: {text!r}, expected one of {', '.join(_SIZES)} = a number")
    return parts[1].upper(), int(parts[2])


def _pages(host: Host, size: str) -> int:
    try:
        return int(host.read(f"{_PAGES}/hugepages-{_SIZES[size]}kB/nr_hugepages"))
    except FileNotFoundError:
        return 0  # this processor has none of that size


def _transparent(host: Host) -> str:
    try:
        text = host.read("/sys/kernel/mm/transparent_hugepage/enabled")
    except FileNotFoundError:
        return "not built in"
    return text.partition("[")[2].partition("]")[0]
