"""Every memory module that the profile promises is in its slot, and all are alike and equally fast."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.system import dmi
from checks.system.dmi import TABLE, Module
from checks.wire import Finding

CONFIRM = "Confirm: `dmidecode -t memory`, `ipmitool sel elist`. "
FEW = code(
    "memory_modules_few",
    "warn",
    "node",
    "{modules} memory modules, expected {expected}; empty: {empty}",
    explain="The firmware does not see a module, or left it out after errors. What is missing of the memory is judged "
    "by memory. " + CONFIRM + "Do: let jobs end, reseat or replace it.",
)
ODD = code(
    "memory_module_odd",
    "warn",
    "config",
    "module of {mib} MiB, expected {expected_mib}",
    explain="Modules of unlike size leave channels unused. " + CONFIRM + "Do: replace it by one of its like.",
)
SLOW = code(
    "memory_module_slow",
    "warn",
    "config",
    "module runs at {mts} MT/s, expected {expected_mts}",
    explain="The firmware slowed the memory down: another module, a setting or a training that failed. "
    + CONFIRM
    + "Do: compare firmware version and settings with a sibling; reboot.",
)
_NAMED = 6


@check(lane="system", interval=3600, timeout=2.0, needs=("root",), codes=(FEW, ODD, SLOW))
def memory_modules(host: Host, *, count: int = 0, size_gib: float = 0.0, min_mts: int = 0) -> Iterator[Finding]:
    """Populated slots in the firmware's table against ``count``, each module against ``size_gib`` and ``min_mts``.

    What is not named is not judged, except that a module which runs slower than most others is told. Read from
    /sys/firmware/dmi, as dmidecode does. Confirm by hand: ``dmidecode -t memory``.
    """
    try:
        slots = dmi.memory_modules(host)
    except FileNotFoundError:
        raise Skip(f"the firmware gives no table ({TABLE})") from None
    # None: the firmware knows that there is one and not how large it is.
    modules = [m for m in slots if m.mib != 0]
    if not modules:
        raise Skip("the firmware's table names no memory module")
    if count and len(modules) < count:
        empty = [m.slot or "unnamed" for m in slots if m.mib == 0]
        yield FEW("memory", modules=len(modules), expected=count, empty=", ".join(empty[:_NAMED]) or "no slot")
    else:
        total = sum(m.mib or 0 for m in modules)
        yield ok("memory", f"{len(modules)} modules, {total // 1024} GiB", modules=len(modules), mib=total)
    yield from _unlike(modules, int(size_gib * 1024), min_mts)


def _unlike(modules: Sequence[Module], mib: int, min_mts: int) -> Iterator[Finding]:
    usual, alike = Counter(m.mts for m in modules if m.mts).most_common(1)[0] if any(m.mts for m in modules) else (0, 0)
    expected = min_mts or (usual if alike * 2 > len(modules) else 0)
    for module in modules:
        slot = module.slot or "unnamed"
        if mib and module.mib is not None and module.mib != mib:
            yield ODD(
                slot, mib=module.mib, expected_mib=mib, maker=module.maker, part=module.part, serial=module.serial
            )
        if 0 < module.mts < expected:
            yield SLOW(slot, mts=module.mts, expected_mts=expected, maker=module.maker, part=module.part)
