"""The kernel knows which processors each GPU is near to, and they are there."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import Skip, check, code
from checks.gpu.pci import pci_gpus
from checks.host import Host
from checks.pci import DEVICES
from checks.system.processors import CPUS, cpu_list, spelled
from checks.wire import Finding

NODES = "/sys/devices/system/node"
UNKNOWN = code(
    "gpu_numa_unknown",
    "warn",
    "config",
    "kernel knows no NUMA node of this GPU, the node has {nodes}",
    explain="Ranks cannot be bound near their GPU: copies cross the sockets. Confirm: `nvidia-smi topo -m`, "
    "`cat /sys/bus/pci/devices/<pci id>/numa_node` says -1. Do: update the firmware (its tables leave the slot out); "
    "in a virtual machine give the guest the topology.",
)
LUMPED = code(
    "gpu_numa_lumped",
    "warn",
    "config",
    "GPUs are on {found} NUMA nodes, expected {expected}",
    explain="A setting of the firmware (NUMA or sub-NUMA mode, a virtual machine without topology) hides where the "
    "GPUs are. Confirm: `nvidia-smi topo -m`. Do: set the firmware as on the other nodes.",
)
NO_CPUS = code(
    "gpu_affinity_empty",
    "warn",
    "config",
    "processors near this GPU are {near}, {what}",
    explain="Whoever binds to the GPU's processors, as NCCL and Slurm do, has none or fewer to run on. Confirm: "
    "`nvidia-smi topo -m`, `cat /sys/bus/pci/devices/<pci id>/local_cpulist`, `lscpu -e`. Do: switch them on.",
)


@check(lane="system", interval=3600, timeout=3.0, codes=(UNKNOWN, LUMPED, NO_CPUS))
def gpu_affinity(host: Host, *, nodes: int = 0) -> Iterator[Finding]:
    """NUMA node and near processors of each GPU, from which NVML's affinity is made; ``nodes`` = on how many they are.

    A machine with one NUMA node has nothing to say here. Confirm by hand: ``nvidia-smi topo -m``.
    """
    gpus = [d.bdf for d in pci_gpus(host) if not d.dead]
    if not gpus:
        raise Skip("no NVIDIA GPU in this node")
    with_cpus = _with_processors(host)
    homes = {bdf: home for bdf in gpus if (home := gpu_home(host, bdf)) is not None}
    if len(with_cpus) > 1:
        for bdf, home in homes.items():
            if home < 0:
                yield UNKNOWN(bdf, nodes=len(with_cpus))
    found = {home for home in homes.values() if home >= 0}
    if nodes and homes.keys() == set(gpus) and 0 < len(found) < min(nodes, len(gpus)) and min(homes.values()) >= 0:
        yield LUMPED("node", found=len(found), expected=nodes, on=spelled(found))
    yield from _near(host, gpus)


def _near(host: Host, gpus: list[str]) -> Iterator[Finding]:
    try:
        online, present = (cpu_list(host.read(f"{CPUS}/{name}")) for name in ("online", "present"))
    except (OSError, ValueError):
        return
    for bdf in gpus:
        try:
            near = cpu_list(host.read(f"{DEVICES}/{bdf}/local_cpulist"))
        except (OSError, ValueError):
            continue
        # That some are switched off is for `processors` to say; that none is left leaves nobody to run.
        if not near & online:
            yield NO_CPUS(bdf, near=spelled(near) or "none", what="of which none is online")
        elif near - present:
            yield NO_CPUS(bdf, near=spelled(near), what=f"of which {spelled(near - present)} do not exist")


def gpu_home(host: Host, bdf: str) -> int | None:
    """The NUMA node of a GPU, -1 where the kernel knows none, None where it cannot be read."""
    try:
        return int(host.read(f"{DEVICES}/{bdf}/numa_node"))
    except (OSError, ValueError):
        return None


def _with_processors(host: Host) -> list[str]:
    """NUMA nodes with processors: memory of a GPU or an expander is a node of its own and has none."""
    found = []
    for path in host.glob(f"{NODES}/node[0-9]*/cpulist"):
        try:
            if cpu_list(host.read(path)):
                found.append(path.parent.name)
        except (OSError, ValueError):
            continue
    return found
