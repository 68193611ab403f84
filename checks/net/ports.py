"""What sysfs says of RDMA adapters, each read alone so that a broken one hides no other."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass
from pathlib import Path

from checks.host import Host
from checks.pci import driver, functions

MELLANOX = "15b3"
_LAYERS = ("InfiniBand", "Ethernet")


@dataclass(frozen=True, slots=True)
class Port:
    """One port of one adapter; ``error`` says why it could not be read, the rest is empty then.

    ``rate`` in Gb/s, 0 where none is given. ``unsupported``: the device forbids the reading (EINVAL).
    """

    name: str
    state: str = ""
    physical: str = ""
    rate: float = 0.0
    layer: str = ""
    link_downed: int | None = None
    error: str = ""
    unsupported: bool = False

    @property
    def up(self) -> bool:
        """Whether the port carries traffic."""
        return self.state == "ACTIVE"


def ports(host: Host) -> list[Port]:
    """Every port of every adapter but virtual functions and the adapter of the default route."""
    management = _management(host)
    found: list[Port] = []
    for adapter in host.glob("/sys/class/infiniband/*"):
        if (adapter / "device" / "physfn").exists() or (management and _device(adapter) == management):
            continue
        try:
            numbers = sorted(p for p in (adapter / "ports").iterdir() if p.name.isdigit())
        except OSError as error:
            found.append(Port(f"{adapter.name}/?", error=error.strerror or str(error)))
            continue
        found += [_port(host, f"{adapter.name}/{p.name}", p) for p in numbers]
    return found


def _port(host: Host, name: str, path: Path) -> Port:
    try:
        state = _word(host.read(path / "state"))
        physical = _word(host.read(path / "phys_state"))
        rate = _gbps(host.read(path / "rate"))
    except OSError as error:
        unsupported = error.errno == errno.EINVAL
        return Port(name, error=error.strerror or str(error), unsupported=unsupported)
    layer = _optional(host, path / "link_layer")
    downed = _optional(host, path / "counters" / "link_downed")
    known = layer if layer in _LAYERS else ("" if layer is None else "other")
    return Port(name, state, physical, rate, known, int(downed) if downed and downed.isdigit() else None)


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


def _management(host: Host) -> Path | None:
    """The device that carries the default route: its adapter serves the administrators, not the jobs."""
    try:
        rows = [line.split() for line in host.read("/proc/net/route").splitlines()[1:]]
    except OSError:
        return None
    names = [row[0] for row in rows if len(row) > 7 and row[1] == "00000000" and row[7] == "00000000"]
    return _device(host.path(f"/sys/class/net/{names[0]}")) if names and "/" not in names[0] else None


def without_verbs(host: Host) -> list[str]:
    """Adapters that lack their uverbs device, where any has one: no program can use them."""
    having = set()
    for entry in host.glob("/sys/class/infiniband_verbs/uverbs*/ibdev"):
        name = _optional(host, entry)
        if name:
            having.add(name)
    if not having:
        return []
    return [a.name for a in host.glob("/sys/class/infiniband/*") if a.name not in having]


def has_adapter(host: Host) -> bool:
    """Whether the PCI bus shows any NVIDIA network function."""
    return bool(_on_pci(host))


def dead_adapters(host: Host) -> list[str]:
    """PCI ids of NVIDIA network functions without kernel driver and RDMA device."""
    alive = {d.name for a in host.glob("/sys/class/infiniband/*") if (d := _device(a))}
    return [bdf for bdf in _on_pci(host) if bdf not in alive and not driver(host, bdf)]


def _on_pci(host: Host) -> list[str]:
    """Network functions of class 0200 and 0207, virtual ones left out."""
    return [f.bdf for f in functions(host) if f.vendor == MELLANOX and f.kind in (0x0200, 0x0207) and not f.virtual]
