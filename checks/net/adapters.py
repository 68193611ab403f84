"""Which RDMA adapters a node has, by sysfs and by the PCI bus, and which of them can serve a job at all."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from checks.gpu.pci import has_gpus, on_bus, pci_switches
from checks.host import Host
from checks.net.route import real_device
from checks.pci import DEVICES, Function, driver, functions

MELLANOX = "15b3"
EFA = ("1d0f", "efa")
CLASS = "/sys/class/infiniband"
# Older ConnectX call themselves 0c06 (InfiniBand on a serial bus) and 0280 (other network controller).
_ETHERNET, _OTHER, _FABRIC = 0x0200, 0x0280, (0x0207, 0x0208, 0x0C06)
_SWITCH_MANAGER = b"SW_MNG"
_SOFTWARE = ("rxe", "siw")
_BDF = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


@dataclass(frozen=True, slots=True)
class Adapter:
    """One RDMA device: where it is in sysfs, its real device and PCI id, empty where there is none.

    ``virtual``: a virtual or sub-function seen on its host. ``software``: soft RoCE or iWARP over any interface.
    ``iwarp``: it speaks TCP and has neither subnet manager nor RoCE addresses.
    """

    name: str
    path: Path
    device: Path | None
    bdf: str
    virtual: bool
    software: bool
    iwarp: bool


def every_adapter(host: Host) -> list[Adapter]:
    """All of them; what never changes while a device exists is looked up once."""
    return host.once("rdma adapters", lambda: _every_adapter(host))


def _every_adapter(host: Host) -> list[Adapter]:
    known = host.kept("rdma adapters", dict[tuple[str, int], Adapter])
    found = {}
    for path in host.glob(f"{CLASS}/*"):
        try:
            key = (path.name, os.lstat(path).st_ino)
        except OSError:
            continue
        found[key] = known.get(key) or _adapter(host, path)
    known.clear()
    known.update(found)
    return list(found.values())


def _adapter(host: Host, path: Path) -> Adapter:
    device = real_device(path)
    bdf = device.name if device and _BDF.fullmatch(device.name) else ""
    soft = path.name.startswith(_SOFTWARE) or (path / "parent").exists() or _made_of_software(path)
    # A part of a function that its driver set up (sub-function) serves a container, as a virtual function does.
    virtual = (path / "device" / "physfn").exists() or bool(device and ".sf." in device.name)
    return Adapter(path.name, path, device, bdf, virtual, soft, _speaks_tcp(host, path))


def _speaks_tcp(host: Host, path: Path) -> bool:
    try:
        return "RNIC" in host.read(path / "node_type")
    except OSError:
        return path.name.startswith(("i40iw", "iw_"))


def _made_of_software(path: Path) -> bool:
    """Soft devices under a name of somebody's choice: the kernel keeps them below its virtual devices."""
    try:
        return "/virtual/" in os.readlink(path)
    except OSError:
        return False


def adapters(host: Host) -> list[Adapter]:
    """All but virtual functions, software adapters and what manages an NVSwitch."""
    return host.once("rdma adapters of jobs", lambda: _adapters(host))


def _adapters(host: Host) -> list[Adapter]:
    apart = set(switch_managers(host))
    return [a for a in every_adapter(host) if not (a.virtual or a.software or a.name in apart)]


def switch_managers(host: Host) -> list[str]:
    """Adapters that serve the NVSwitches of an HGX B200 and no job: their vital product data says SW_MNG.

    Their counters must not be read, and the data is asked for once and only beside GPUs without an NVSwitch on PCI.
    """
    if not _may_have_managers(host):
        return []
    return [a.name for a in every_adapter(host) if _manages_switch(host, a.path / "device")]


def _may_have_managers(host: Host) -> bool:
    return has_gpus(host) and not pci_switches(host)


def _manages_switch(host: Host, device: Path) -> bool:
    known = host.kept("switch managers", dict[Path, bool])
    if device not in known:
        try:
            known[device] = _SWITCH_MANAGER in host.read_bytes(device / "vpd", 1024)
        except OSError:
            known[device] = False
    return known[device]


def without_verbs(host: Host) -> tuple[list[str], list[str]]:
    """Adapters that lack their uverbs device, where any has one, and those whose file in /dev is not there.

    No program can use them. A missing issm proves nothing: some makers switch subnet management off (E74).
    """
    having = _verbs(host)
    # One that does not say whose it is may be anybody's: then nobody is proven to lack it.
    blind = bool(having.keys() - {a.name for a in every_adapter(host)})
    try:
        nodes = {n for n in os.listdir(host.path("/dev/infiniband")) if n.startswith("uverbs")}
    except OSError:
        nodes = set()
    names = [a.name for a in adapters(host)] if having else []
    lost = [n for n in names if nodes and n in having and having[n] not in nodes]
    return [n for n in names if n not in having and not blind], lost


def _verbs(host: Host) -> dict[str, str]:
    """Names of uverbs devices by that of their adapter, each read once while it exists; unreadable ones as ""."""
    folder = host.path("/sys/class/infiniband_verbs")
    known, found = host.kept("uverbs", dict[tuple[str, int], str]), {}
    try:
        entries = sorted(n for n in os.listdir(folder) if n.startswith("uverbs"))
    except OSError:
        entries = []
    for entry in entries:
        try:
            key = entry, os.lstat(f"{folder}/{entry}").st_ino
            found[key] = known.get(key) or host.read(f"/sys/class/infiniband_verbs/{entry}/ibdev").strip()
        except OSError:
            found[entry, 0] = ""
    known.clear()
    known.update(found)
    return {name: entry for (entry, _), name in found.items()}


def off_the_bus(host: Host, adapter: Adapter) -> bool:
    """Whether its PCI function no longer answers: all ones in place of its configuration.

    That the bus does not list it proves nothing: the kernel takes the adapter away with its function, so a tree that
    shows the one and not the other was kept in part.
    """
    listed = bool(adapter.bdf) and host.path(f"{DEVICES}/{adapter.bdf}").exists()
    return listed and on_bus(host, adapter.bdf) is False


def has_adapter(host: Host) -> bool:
    """Whether the PCI bus shows any function that can only be an RDMA adapter."""
    return bool(_on_pci(host))


def without_device(host: Host) -> tuple[list[str], list[str]]:
    """PCI ids of such functions that have no RDMA device: those without kernel driver, and those whose driver runs.

    The second half of a bond has none of its own.
    """
    found = [(bdf, driver(host, bdf)) for bdf in _without_device(host)]
    bonded = {a.bdf.rpartition(".")[0] for a in every_adapter(host) if "bond" in a.name}
    mute = [bdf for bdf, bound in found if bound and bdf.rpartition(".")[0] not in bonded]
    return [bdf for bdf, bound in found if not bound], mute


def _without_device(host: Host) -> list[str]:
    alive = {a.bdf for a in every_adapter(host)}
    found = [bdf for bdf in _on_pci(host) if bdf not in alive]
    if found and _may_have_managers(host):
        found = [bdf for bdf in found if not _manages_switch(host, host.path(f"{DEVICES}/{bdf}"))]
    return found


def _on_pci(host: Host) -> list[str]:
    """InfiniBand and fabric controllers, NVIDIA's Ethernet and Amazon's EFA; virtual ones left out.

    Other makers' Ethernet adapters cannot be told from those without RDMA.
    """
    return [f.bdf for f in functions(host) if not f.virtual and (f.kind in _FABRIC or _by_maker(f))]


def _by_maker(function: Function) -> bool:
    if function.vendor == MELLANOX:
        return function.kind in (_ETHERNET, _OTHER)
    return function.kind == _ETHERNET and (function.vendor, function.device[:3]) == EFA
