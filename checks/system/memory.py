"""The node has the memory that its profile promises and none of it was taken out for errors."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import check, code, ok
from checks.host import Host
from checks.system.numa import numa_nodes
from checks.wire import Finding

LOW = code(
    "memory_low",
    "fail",
    "node",
    "{total_gib:g} GiB of memory, expected at least {min_gib:g}",
    explain="A memory module is missing or was mapped out by the firmware. "
    "Confirm: `free -g`, `dmidecode -t memory`, the system event log. Do: let jobs end, reseat or replace the module.",
)
CORRUPTED = code(
    "memory_corrupted",
    "warn",
    "node",
    "{corrupted_kib} KiB taken out of use for errors, limit {limit_kib}",
    explain="The kernel retired pages after uncorrected errors. Confirm: `grep HardwareCorrupted /proc/meminfo`, "
    "`dmesg | grep -i -e mce -e edac`. Do: plan a replacement of the module.",
)


@check(lane="system", interval=120, timeout=2.0, codes=(LOW, CORRUPTED))
def memory(
    host: Host,
    *,
    min_gib: float = 0.0,
    tolerance_pct: float = 2.0,
    max_corrupted_kib: int = 0,
    beside_processors: bool = False,
) -> Iterator[Finding]:
    """MemTotal against ``min_gib`` less ``tolerance_pct`` (what firmware and kernel keep differs a little).

    Without ``min_gib`` the number is only kept. With ``beside_processors`` only NUMA nodes with processors count: on
    Grace the kernel's total holds the memory of the GPUs, too, in which a missing module would not show.
    Confirm by hand: ``free -g``, ``numactl -H``, ``dmidecode -t memory``.

    ``max_corrupted_kib``: what may be taken out of use for errors.
    """
    seen = figures(host.read("/proc/meminfo"))
    kib = sum(n.kib for n in numa_nodes(host) if n.processors) if beside_processors else seen["MemTotal"]
    if not kib:
        raise ValueError("no NUMA node with processors has memory")
    total = round(kib / 1024 / 1024, 1)
    if total < min_gib * (1 - tolerance_pct / 100):
        yield LOW("memory", total_gib=total, min_gib=min_gib, tolerance_pct=tolerance_pct)
    else:
        yield ok("memory", f"{total:g} GiB", total_gib=total, min_gib=min_gib)
    corrupted = seen.get("HardwareCorrupted", 0)
    if corrupted > max_corrupted_kib:
        yield CORRUPTED("memory", corrupted_kib=corrupted, limit_kib=max_corrupted_kib)


def figures(text: str) -> dict[str, int]:
    """/proc/meminfo in KiB; a text without MemTotal is no answer and raises ValueError."""
    figures = {}
    for line in text.splitlines():
        name, _, value = line.partition(":")
        number = value.split()[:1]
        if number and number[0].isdecimal():
            figures[name] = int(number[0])
    if not figures.get("MemTotal"):
        raise ValueError("/proc/meminfo has no MemTotal")
    return figures
