"""What sysfs says of RDMA adapters, each read alone so that a broken one hides no other."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from checks.declare import clean
from checks.gpu.pci import pci_gpus, pci_switches
from checks.host import Host
from checks.pci import Function, driver, functions

MELLANOX = "15b3"
EFA = ("1d0f", "efa")
_ETHERNET, _FABRIC = 0x0200, (0x0207, 0x0208)
_STATES = frozenset({"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"})
INFINIBAND = "InfiniBand"
_LAYERS = (INFINIBAND, "Ethernet")
_SWITCH_MANAGER = b"SW_MNG"
_SOFTWARE = ("rxe", "siw")
_RTF_REJECT = 0x0200


@dataclass(frozen=True, slots=True)
class Port:
    """One port of one adapter; ``error`` says why it could not be read, the rest is empty then.

    ``rate`` in Gb/s, 0 where none is given. ``unsupported``: the device forbids the reading (EINVAL).
    ``management``: the adapter carries the node's default route.
    """

    name: str
    state: str = ""
    physical: str = ""
    rate: float = 0.0
    layer: str = ""
    link_downed: int | None = None
    error: str = ""
    unsupported: bool = False
    management: bool = False

    @property
    def up(self) -> bool:
        """Whether the port carries traffic."""
        return self.state in ("ACTIVE", "ACTIVE_DEFER")


def ports(host: Host) -> list[Port]:
    """Every port of every adapter but virtual functions, software adapters and what manages an NVSwitch."""
    management = _management(host)
    found: list[Port] = []
    for adapter in _adapters(host):
        serves = _device(adapter) in management
        try:
            numbers = sorted(p for p in (adapter / "ports").iterdir() if p.name.isdecimal())
        except OSError as error:
            found.append(Port(f"{adapter.name}/?", error=error.strerror or str(error), management=serves))
            continue
        found += [replace(_port(host, f"{adapter.name}/{p.name}", p), management=serves) for p in numbers]
    return found


def _adapters(host: Host) -> list[Path]:
    apart = set(switch_managers(host))
    return [
        a
        for a in host.glob("/sys/class/infiniband/*")
        if not (a / "device" / "physfn").exists() and not a.name.startswith(_SOFTWARE) and a.name not in apart
    ]


def switch_managers(host: Host) -> list[str]:
    """Adapters that serve the NVSwitches of an HGX B200 and no job: their vital product data says SW_MNG.

    Their counters must not be read, and the data is asked for once and only beside GPUs without an NVSwitch on PCI.
    """
    if not pci_gpus(host) or pci_switches(host):
        return []
    known = host.kept("switch managers", dict[str, bool])
    found = []
    for adapter in host.glob("/sys/class/infiniband/*"):
        if adapter.name not in known:
            known[adapter.name] = _manages_switch(host, adapter)
        found += [adapter.name] if known[adapter.name] else []
    return found


def _manages_switch(host: Host, adapter: Path) -> bool:
    try:
        return _SWITCH_MANAGER in host.read_bytes(adapter / "device" / "vpd", 1024)
    except OSError:
        return False


def _port(host: Host, name: str, path: Path) -> Port:
    try:
        state = _word(host.read(path / "state")).upper()
        physical = _word(host.read(path / "phys_state"))
        rate = _gbps(host.read(path / "rate"))
    except OSError as error:
        unsupported = error.errno == errno.EINVAL
        return Port(name, error=error.strerror or str(error), unsupported=unsupported)
    if state not in _STATES:
        return Port(name, error=f"state {clean(state, 32)!r} is not known to us")
    layer = _optional(host, path / "link_layer")
    downed = _optional(host, path / "counters" / "link_downed")
    known = layer if layer in _LAYERS else ("" if layer is None else "other")
    return Port(name, state, physical, rate, known, int(downed) if downed and downed.isdecimal() else None)


def _word(text: str) -> str:
    """ "4: ACTIVE" -> "ACTIVE"."""
    return text.strip().rpartition(":")[2].strip()


def _gbps(text: str) -> float:
    """ "400 Gb/sec (4X NDR)" -> 400.0; "N/A" -> 0."""
    match = re.match(r"\s*(\d{1,6}(?:\.\d{1,3})?)\s", text + " ")
    return float(match.group(1)) if match else 0.0


def _optional(host: Host, path: Path) -> str | None:
    """A file that not every adapter has; some give "N/A (no PMA)" or an error."""
    try:
        return host.read(path).strip()
    except OSError:
        return None


def _device(entry: Path) -> Path | None:
    try:
        return (entry / "device").resolve(strict=True)
    except (OSError, RuntimeError):
        return None


def _management(host: Host) -> frozenset[Path]:
    """The devices that carry the default route, below bonds, bridges and VLANs too: they serve administrators."""
    name = _default_route(host)
    return frozenset(_carrying(host, name)) if name else frozenset()


def _carrying(host: Host, name: str, depth: int = 4) -> Iterator[Path]:
    device = _device(host.path(f"/sys/class/net/{name}"))
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


def without_verbs(host: Host) -> list[str]:
    """Adapters that lack their uverbs device, where any has one: no program can use them."""
    having = set()
    for entry in host.glob("/sys/class/infiniband_verbs/uverbs*/ibdev"):
        name = _optional(host, entry)
        if name:
            having.add(name)
    if not having:
        return []
    return [a.name for a in _adapters(host) if a.name not in having]


def has_adapter(host: Host) -> bool:
    """Whether the PCI bus shows any function that can only be an RDMA adapter."""
    return bool(_on_pci(host))


def dead_adapters(host: Host) -> list[str]:
    """PCI ids of such functions without kernel driver and RDMA device."""
    alive = {d.name for a in host.glob("/sys/class/infiniband/*") if (d := _device(a))}
    return [bdf for bdf in _on_pci(host) if bdf not in alive and not driver(host, bdf)]


def _on_pci(host: Host) -> list[str]:
    """InfiniBand and fabric controllers (0207, 0208), NVIDIA's Ethernet and Amazon's EFA; virtual ones left out.

    Other makers' Ethernet adapters cannot be told from those without RDMA.
    """
    return [f.bdf for f in functions(host) if not f.virtual and (f.kind in _FABRIC or _by_maker(f))]


def _by_maker(function: Function) -> bool:
    ethernet = function.kind == _ETHERNET
    return ethernet and (function.vendor == MELLANOX or (function.vendor, function.device[:3]) == EFA)
