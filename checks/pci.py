"""Which functions are on the PCI bus, read anew only when the bus itself has changed."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from checks.host import Host

DEVICES = "/sys/bus/pci/devices"


@dataclass(frozen=True, slots=True)
class Function:
    """One PCI function: ``kind`` is class and subclass, 0x0302 for a 3D controller; ids as four hex digits."""

    bdf: str
    vendor: str
    device: str
    kind: int
    virtual: bool


@dataclass(slots=True)
class _Seen:
    names: frozenset[str] = frozenset()
    functions: tuple[Function, ...] = field(default=())


def functions(host: Host) -> tuple[Function, ...]:
    """Every function in the order of its PCI id; one that cannot be read is left out.

    What the kernel keeps of a function never changes while it is listed, so a round costs one directory listing,
    unless one could not be read.
    """
    return host.once("pci functions", lambda: _functions(host))


def _functions(host: Host) -> tuple[Function, ...]:
    try:
        names = frozenset(os.listdir(host.path(DEVICES)))
    except OSError:
        return ()
    seen = host.kept("pci functions", _Seen)
    if names != seen.names:
        found = [_function(host, name) for name in sorted(names)]
        seen.functions = tuple(f for f in found if f is not None)
        seen.names = names if None not in found else frozenset()
    return seen.functions


def _function(host: Host, name: str) -> Function | None:
    base = f"{DEVICES}/{name}"
    try:
        vendor, device = (host.read(f"{base}/{part}").strip().removeprefix("0x") for part in ("vendor", "device"))
        kind = int(host.read(f"{base}/class").strip(), 16) >> 8
    except (OSError, ValueError):
        return None
    return Function(name.lower(), vendor, device, kind, host.path(f"{base}/physfn").exists())


def driver(host: Host, bdf: str) -> str:
    """Name of the kernel driver bound to a function, empty when none is."""
    try:
        return host.link(f"{DEVICES}/{bdf}/driver").rpartition("/")[2]
    except OSError:
        return ""
