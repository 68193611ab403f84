"""The PCI express links of GPUs, adapters and disks run at their full width and speed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.pci import DEVICES, Function, functions
from checks.wire import Finding

NARROW = code(
    "pcie_width_low",
    "fail",
    "node",
    "link runs with {width} lanes, expected {expected}",
    explain="A card not seated, a bad riser or retimer: the device has a part of its bandwidth. "
    "Confirm: `lspci -vv -s <target> | grep LnkSta`. Do: let jobs end, power-cycle, reseat or replace.",
)
ODD = code(
    "pcie_width_odd",
    "warn",
    "node",
    "link runs with {width} lanes, its like in this node with {siblings}",
    explain="Where the profile names no width, the devices of one kind are compared. "
    "Confirm: `lspci -vv -s <target> | grep -e LnkCap -e LnkSta`."
    " Do: when idle, reseat the device or its riser; name the width in the profile.",
)
SLOW = code(
    "pcie_speed_low",
    "warn",
    "node",
    "link runs at {speed:g} GT/s, expected {expected:g}",
    explain="Trained down for errors on the wire. Confirm: `lspci -vv -s <target> | grep LnkSta`. Do: power-cycle, "
    "reseat or replace.",
)
# A GPU at rest slows its link down to save power, so a GPU's speed says nothing here.
_KINDS = {"gpu": (0x0302, 0x0300), "adapter": (0x0200, 0x0207), "disk": (0x0108,)}
_VENDORS = {"gpu": "10de", "adapter": "15b3"}
GONE = 64
"""No link has as many lanes: a device that is gone answers with ones."""


@dataclass(frozen=True, slots=True)
class _Link:
    function: Function
    kind: str
    width: int
    speed: float
    most: int


@check(lane="system", interval=300, timeout=3.0, codes=(NARROW, ODD, SLOW))
def pcie_link(
    host: Host, *, gpu_width: int = 0, adapter_width: int = 0, disk_width: int = 0, adapter_gts: float = 0.0
) -> Iterator[Finding]:
    """Lanes of each link against the profile, and without a number there against most of its like in this node.

    A device may be built for more lanes than its slot has, so what it could do is no expectation. Virtual functions
    have no link of their own. Confirm by hand: ``lspci -vv | grep LnkSta``.

    ``gpu_width``, ``adapter_width`` and ``disk_width``: the least lanes of each kind, 0 compares the devices of a
    kind; ``adapter_gts``: the least GT/s of adapters, 0 asks for none.
    """
    links = [link for f in functions(host) if (link := _link(host, f)) is not None]
    if not links:
        raise Skip("no PCI express device of a kind that is watched")
    wanted = {"gpu": gpu_width, "adapter": adapter_width, "disk": disk_width}
    bad = []
    for link in links:
        found = _width(link, wanted[link.kind], links)
        if found is None and link.kind == "adapter" and 0 < link.speed < adapter_gts:
            found = SLOW(link.function.bdf, speed=link.speed, expected=adapter_gts, device=link.function.device)
        if found is not None:
            bad.append(found)
    yield from bad
    if not bad:
        yield ok("node", f"{len(links)} links at full width", links=len(links))


def _width(link: _Link, expected: int, links: Sequence[_Link]) -> Finding | None:
    if expected and link.width < expected:
        return NARROW(link.function.bdf, width=link.width, expected=expected, device=link.function.device)
    if expected:
        return None
    alike = Counter(other.width for other in links if _same(other, link))
    usual, count = alike.most_common(1)[0]
    if link.width < usual and count * 2 > sum(alike.values()):
        return ODD(link.function.bdf, width=link.width, siblings=usual, device=link.function.device)
    return None


def _same(one: _Link, other: _Link) -> bool:
    return (one.function.vendor, one.function.device, one.most) == (
        other.function.vendor,
        other.function.device,
        other.most,
    )


def _link(host: Host, function: Function) -> _Link | None:
    """The link of a function that is watched; None where it has none or the device does not answer."""
    kind = next((k for k, kinds in _KINDS.items() if function.kind in kinds), None)
    if kind is None or function.virtual or function.vendor != _VENDORS.get(kind, function.vendor):
        return None
    base = f"{DEVICES}/{function.bdf}"
    try:
        width, most = (int(host.read(f"{base}/{name}_link_width")) for name in ("current", "max"))
    except (OSError, ValueError):
        return None
    return _Link(function, kind, width, _speed(host, base), most) if 0 < width < GONE else None


def _speed(host: Host, base: str) -> float:
    """GT/s; 0 where the kernel has no name for it (4.18 calls what is faster than 16 GT/s unknown)."""
    try:
        return float(host.read(f"{base}/current_link_speed").split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0
