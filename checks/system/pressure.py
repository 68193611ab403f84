"""Jobs do not stand still for want of memory, and swap is not what they run from."""

from __future__ import annotations

import re
from collections.abc import Iterator

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.wire import Finding

MEMORY = code(
    "memory_pressure",
    "warn",
    "job",
    "every task waited for memory {percent:g} % of the last minute, limit {limit_pct:g} %",
    explain="What runs needs more memory than it may have: the job's, not the node's trouble. "
    "Confirm: `cat /proc/pressure/memory`, and the same file of the job's cgroup."
    " Do: nothing to the node; tell the job's owner.",
)
SWAPPING = code(
    "swap_used",
    "warn",
    "job",
    "{used_pct} % of {total_gib:g} GiB of swap in use, limit {limit_pct} %",
    explain="Confirm: `free -g`, `swapon --show`. Do: look at what the job before this one left, and in tmpfs.",
)
_AVERAGE = re.compile(r"^(some|full) avg10=([\d.]{1,8}) avg60=([\d.]{1,8}) ", re.MULTILINE)


@check(lane="system", interval=60, timeout=2.0, codes=(MEMORY, SWAPPING))
def pressure(host: Host, *, memory_pct: float = 20.0, swap_pct: int = 50) -> Iterator[Finding]:
    """Share of the last minute in which all tasks waited for memory (PSI ``full avg60``), and swap in use.

    Limits are ours; neither blames the node. Confirm by hand: ``cat /proc/pressure/memory``, ``free``.

    ``memory_pct``: of the last minute in which all waited for memory. ``swap_pct``: of the swap in use.
    """
    figures = dict(re.findall(r"^(\w+): +(\d{1,18}) kB$", host.read("/proc/meminfo"), re.MULTILINE))
    total = int(figures.get("SwapTotal", 0))
    used = (total - int(figures.get("SwapFree", total))) * 100 // total if total else 0
    if used > swap_pct:
        yield SWAPPING("memory", used_pct=used, total_gib=round(total / 1024**2, 1), limit_pct=swap_pct)
    try:
        text = host.read("/proc/pressure/memory")
    except OSError:
        # EOPNOTSUPP where it is switched off at boot.
        raise Skip("this kernel does not measure pressure") from None
    averages = {kind: float(minute) for kind, _, minute in _AVERAGE.findall(text)}
    if "full" not in averages:
        raise ValueError("/proc/pressure/memory has no line 'full'")
    if averages["full"] > memory_pct:
        yield MEMORY("memory", percent=averages["full"], limit_pct=memory_pct)
    else:
        yield ok("memory", f"waited {averages['full']:g} % of the last minute", full_avg60=averages["full"])
