"""A profile is written from a node that is known to be good; it never judges the node that it was taken from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

from checks.declare import Skip
from checks.fs.nvme import disks
from checks.gpu.affinity import gpu_home
from checks.gpu.pci import NVIDIA, pci_gpus
from checks.gpu.peermem import gpu_peermem
from checks.hardware import tables
from checks.host import Host
from checks.net.adapters import MELLANOX
from checks.net.ports import Port, ports
from checks.pci import DEVICES, functions
from checks.system.dmi import memory_modules
from checks.system.memory import figures
from checks.system.numa import numa_nodes
from checks.system.processors import CPUS, cpu_list

# A part of the memory goes to firmware and kernel, and a little less on the next boot.
KEPT_BACK = 0.99
_WATCHED = (0x0300, 0x0302, 0x0680, 0x0200, 0x0207)

Settings = dict[str, dict[str, object]]


class NotGood(ValueError):
    """The node has a fault that would become the expectation."""


def capture(host: Host, name: str, title: str) -> str:
    """The profile of this node as TOML; NotGood when something in it is plainly broken."""
    settings = {check: values for check, values in _settings(host).items() if values}
    return _toml(name, title, _match(host), settings)


def _match(host: Host) -> Mapping[str, int]:
    found = Counter(
        f"{f.vendor}:{f.device}"
        for f in functions(host)
        if f.kind in _WATCHED and f.vendor in (NVIDIA, MELLANOX) and not f.virtual
    )
    return dict(sorted(found.items()))


def _settings(host: Host) -> Settings:
    gpus = [g for g in pci_gpus(host) if g.ours]
    if dead := [g.bdf for g in gpus if g.dead]:
        raise NotGood(f"GPU {dead[0]} does not answer on the bus")
    count: dict[str, object] = {"expected": len(gpus)} if gpus else {}
    return {
        "gpu_count": count,
        "gpu_driver": dict(count),
        "gpu_cuda": dict(count),
        "gpu_affinity": _homes(host, [g.bdf for g in gpus]),
        "gpu_peermem": _direct(host, [g.bdf for g in gpus]),
        **_links(host),
        "pcie_link": _width(host, [g.bdf for g in gpus]),
        "ib_port": _network(host),
        **_memory(host),
        "processors": _processors(host),
        "nvme": {"count": found} if (found := len(disks(host))) else {},
    }


def _memory(host: Host) -> Settings:
    """Memory, modules and NUMA nodes; the memory of GPUs that are NUMA nodes is none of a module's."""
    nodes = numa_nodes(host)
    homes = [n for n in nodes if n.processors]
    beside = bool(homes) and any(n.kib for n in nodes if not n.processors)
    total = sum(n.kib for n in homes) if beside else figures(host.read("/proc/meminfo"))["MemTotal"]
    try:
        modules = [m for m in memory_modules(host) if m.mib != 0]
    except (OSError, ValueError):
        modules = []
    memory: dict[str, object] = {"min_gib": int(total / 1024**2 * KEPT_BACK)}
    return {
        "memory": {**memory, "beside_processors": True} if beside else memory,
        "memory_modules": {"count": len(modules)} if modules else {},
        "numa": {"nodes": len(homes)} if homes else {},
    }


def _links(host: Host) -> Settings:
    """Number and speed that the reference tables give for this model: what is up now is no expectation."""
    ids = {f"{f.vendor}:{f.device}" for f in functions(host) if f.vendor == NVIDIA}
    known = (a for a in tables().accelerator.values() if ids & set(a.pci) and a.links)
    links = {(a.links, a.link_gb_s / a.links) for a in known}
    boards = any(f.vendor == NVIDIA and f.kind == 0x0680 for f in functions(host))
    if not boards or len(links) != 1:
        return {}
    count, each = links.pop()
    return {"gpu_nvlink": {"links": count}, "gpu_nvlink_speed": {"min_gbytes": int(each)}}


def _width(host: Host, gpus: list[str]) -> dict[str, object]:
    found = set()
    for bdf in gpus:
        try:
            found.add(int(host.read(f"{DEVICES}/{bdf}/current_link_width")))
        except (OSError, ValueError):
            return {}
    if len(found) > 1:
        raise NotGood(f"GPUs have links of different width: {sorted(found)}")
    return {"gpu_width": found.pop()} if found else {}


def _homes(host: Host, gpus: list[str]) -> dict[str, object]:
    """On how many NUMA nodes the GPUs are; nothing where the kernel does not know it of one."""
    homes = {gpu_home(host, bdf) for bdf in gpus}
    known = {home for home in homes if home is not None and home >= 0}
    return {"nodes": len(known)} if known and known == homes else {}


def _direct(host: Host, gpus: list[str]) -> dict[str, object]:
    """Whether adapters reach the GPUs' memory by themselves, as they do on this node."""
    try:
        return {"expected": True} if gpus and ports(host) and not list(gpu_peermem(host, expected=True)) else {}
    except (Skip, OSError):
        return {}


def _network(host: Host) -> dict[str, object]:
    seen = [p for p in ports(host) if not p.management or p.layer == "InfiniBand"]
    if broken := [p for p in seen if p.error and not p.unsupported]:
        raise NotGood(f"port {broken[0].name} cannot be read: {broken[0].error}")
    up: list[Port] = [p for p in seen if p.up]
    if not up:
        return {}
    down = sorted(p.name for p in seen if not p.up and not p.error)
    return {
        "count": len(up),
        "min_gbps": int(min(p.rate for p in up)),
        **({"ignore": down} if down else {}),
    }


def _processors(host: Host) -> dict[str, object]:
    online = cpu_list(host.read(f"{CPUS}/online"))
    homes = set()
    for number in online:
        try:
            homes.add(host.read(f"{CPUS}/cpu{number}/topology/physical_package_id").strip())
        except OSError:
            break
    return {"expected": len(online), **({"sockets": len(homes)} if homes else {})}


def _toml(name: str, title: str, match: Mapping[str, int], settings: Settings) -> str:
    lines = [
        "# Written from one node that was known to be good. Read it before you use it: what was missing there is not",
        "# expected here. Mounts, services and the driver's version are not guessed.",
        *(
            []
            if match
            else [f"# No PCI device tells this kind of node: set profile = {json.dumps(name)} under [agent]."]
        ),
        f"name = {json.dumps(name)}",
        f"title = {json.dumps(title)}",
        "",
        "[match.pci]",
        *(f"{json.dumps(pci)} = {count}" for pci, count in match.items()),
    ]
    for check, values in settings.items():
        lines += ["", f"[checks.{check}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"
