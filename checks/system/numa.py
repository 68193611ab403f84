"""Memory is spread evenly over the NUMA nodes that have processors, and their number is as it should be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.system.processors import cpu_list
from checks.wire import Finding

NODES = "/sys/devices/system/node"
COUNT = code(
    "numa_nodes_wrong",
    "warn",
    "config",
    "{nodes} NUMA nodes have processors, expected {expected}",
    explain="A setting of the firmware (NPS, sub-NUMA clustering) differs from its fleet's: jobs are bound otherwise. "
    "Confirm: `lscpu | grep NUMA`, `numactl -H`. Do: set it in the firmware, reboot.",
)
UNEVEN = code(
    "numa_memory_uneven",
    "warn",
    "node",
    "{gib:g} GiB of memory, the fullest NUMA node has {most_gib:g} (limit {limit_pct:g} % less)",
    explain="A memory module of this socket is missing, was mapped out by the firmware or was put into the wrong slot. "
    "Confirm: `numactl -H`, `dmidecode -t memory`. Do: let jobs end, reseat or replace the module; where the sockets "
    "are unlike on purpose raise the limit.",
)
_TOTAL = re.compile(r"MemTotal:\s+(\d{1,18}) kB")


@dataclass(frozen=True, slots=True)
class Numa:
    """One NUMA node: its number, its memory in KiB and whether processors belong to it."""

    number: int
    kib: int
    processors: bool


@check(lane="system", interval=600, timeout=2.0, codes=(COUNT, UNEVEN))
def numa(host: Host, *, nodes: int = 0, uneven_pct: float = 20.0) -> Iterator[Finding]:
    """Number of NUMA nodes with processors against ``nodes``, and the memory of each against the fullest of them.

    A NUMA node without processors is none of these: on Grace each GPU's memory is one (and more of them are empty),
    elsewhere it is memory on a card. The limit is ours: firmware and crash kernel take a few percent from the first,
    a missing module of twelve takes 8 to 50 %. Confirm by hand: ``numactl -H``.

    ``uneven_pct``: how much less than the largest a NUMA node may have.
    """
    found = numa_nodes(host)
    if not found:
        raise Skip("this kernel knows no NUMA nodes")
    homes = [n for n in found if n.processors]
    if nodes and len(homes) != nodes:
        yield COUNT("node", nodes=len(homes), expected=nodes)
    most = max((n.kib for n in homes), default=0)
    bare = False
    for node in homes:
        if node.kib < most * (1 - uneven_pct / 100):
            bare = True
            yield UNEVEN(f"numa{node.number}", gib=_gib(node.kib), most_gib=_gib(most), limit_pct=uneven_pct)
    if not bare:
        others = sum(n.kib for n in found if not n.processors)
        yield ok(
            "node", f"{len(homes)} NUMA nodes", nodes=len(homes), gib=_gib(most), without_processors_gib=_gib(others)
        )


def numa_nodes(host: Host) -> list[Numa]:
    """Every NUMA node that the kernel shows, by number; one whose files cannot be read raises."""
    found = []
    for path in host.glob(f"{NODES}/node[0-9]*"):
        if not path.name[4:].isdecimal():
            continue
        total = _TOTAL.search(host.read(path / "meminfo"))
        if total is None:
            raise ValueError(f"{host.name(path)}/meminfo has no MemTotal")
        found.append(Numa(int(path.name[4:]), int(total[1]), bool(cpu_list(host.read(path / "cpulist")))))
    return sorted(found, key=lambda n: n.number)


def _gib(kib: int) -> float:
    return round(kib / 1024 / 1024, 1)
