"""Which devices carry the node's default route: they serve administrators."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from checks.host import Host

_RTF_REJECT = 0x0200


def real_device(entry: Path) -> Path | None:
    """The device that a class entry stands for."""
    try:
        return (entry / "device").resolve(strict=True)
    except (OSError, RuntimeError):
        return None


def management(host: Host) -> frozenset[Path]:
    """The devices that carry the default route, below bonds, bridges and VLANs too."""
    name = _default_route(host)
    return frozenset(_carrying(host, name)) if name else frozenset()


def _carrying(host: Host, name: str, depth: int = 4) -> Iterator[Path]:
    device = real_device(host.path(f"/sys/class/net/{name}"))
    if device is not None:
        yield device
    for lower in host.glob(f"/sys/class/net/{name}/lower_*") if depth else ():
        yield from _carrying(host, lower.name.removeprefix("lower_"), depth - 1)


def _default_route(host: Host) -> str:
    """Name of the interface of the default route with the lowest metric, that of IPv6 where IPv4 has none."""
    rows = [row for row in _rows(host, "/proc/net/route") if len(row) > 7 and row[1] == row[7] == "0" * 8]
    found = [(int(row[6]), row[0]) for row in rows if row[6].isdecimal()]
    if not found:
        rows = [row for row in _rows(host, "/proc/net/ipv6_route") if len(row) > 9 and row[0] == "0" * 32]
        found = [(_hex(row[5]), row[9]) for row in rows if row[1] == "00" and not _hex(row[8]) & _RTF_REJECT]
    name = min(found)[1] if found else ""
    return name if re.fullmatch(r"[^/*?\[]{1,15}", name) else ""


def _hex(text: str) -> int:
    try:
        return int(text, 16)
    except ValueError:
        return _RTF_REJECT


def _rows(host: Host, path: str) -> list[list[str]]:
    try:
        return [line.split() for line in host.read(path).splitlines()]
    except OSError:
        return []
