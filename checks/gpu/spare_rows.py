"""No memory bank of a GPU has used up its spare rows, and no repair waits for a reset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from checks.declare import check, code
from checks.gpu.ask import UNTOLD, answering, opened, read
from checks.gpu.device import Device
from checks.host import Host
from checks.wire import Finding

EXHAUSTED = code(
    "gpu_remap_exhausted",
    "warn",
    "node",
    "{none} memory banks have no spare row left ({low} few, of {banks})",
    explain="The next bad row in such a bank cannot be remapped, and the GPU must be replaced then. "
    "Confirm: `nvidia-smi -q -d ROW_REMAPPER -i <pci id>`, the histogram. Do: plan a replacement.",
)
REPAIR = code(
    "gpu_repair_pending",
    "warn",
    "node",
    "a repair of a {part} waits for a GPU reset",
    explain="The GPU works and mends itself at its next reset. "
    "Confirm: `nvidia-smi -q -d ECC -i <pci id> | grep -i repair`. Do: when idle, reset the GPU or reboot.",
)

UNREPAIRABLE = code(
    "gpu_memory_unrepairable",
    "warn",
    "node",
    "the device says that a part of its memory cannot be repaired",
    explain="No spare is left where one is needed; the next error there ends programs. "
    "Confirm: `nvidia-smi -q -d ECC -i <pci id> | grep -i unrepairable`. Do: replace the GPU.",
)


@dataclass(frozen=True, slots=True)
class SpareRows:
    """How many memory banks have all, most, some, few and no spare rows left."""

    full: int
    high: int
    partial: int
    low: int
    none: int

    def banks(self) -> int:
        return self.full + self.high + self.partial + self.low + self.none


def spare_rows(device: Device) -> SpareRows:
    told = device.call("nvmlDeviceGetRowRemapperHistogram")
    return SpareRows(*(int(getattr(told, name)) for name in ("max", "high", "partial", "low", "none")))


def repair_pending(device: Device) -> tuple[str, ...]:
    """Parts of which a repair waits for a reset, where the driver tells (2025 and later)."""
    told = device.call("nvmlDeviceGetRepairStatus")
    return tuple(name for name, waits in zip(("memory channel", "TPC"), told, strict=False) if int(waits))


def unrepairable_memory(device: Device) -> bool:
    """The device's own flag, told by drivers of 2026 and later."""
    return bool(int(device.call("nvmlDeviceGetUnrepairableMemoryFlag_v1")))


@check(lane="nvml", interval=3600, timeout=5.0, codes=(EXHAUSTED, REPAIR, UNREPAIRABLE, *UNTOLD))
def gpu_spare_rows(host: Host) -> Iterator[Finding]:
    """No memory bank has used up its spare rows, no repair waits for a reset and none is impossible.

    Confirm by hand: ``nvidia-smi -q -d ROW_REMAPPER,ECC``.
    """
    nvml = opened(host)
    trouble: list[Finding] = []
    for gpu in answering(nvml):
        rows = read(nvml, spare_rows, gpu, trouble)
        if rows is not None and rows.none:
            yield EXHAUSTED(gpu.target, none=rows.none, low=rows.low, banks=rows.banks(), uuid=gpu.uuid)
        for part in read(nvml, repair_pending, gpu, trouble) or ():
            yield REPAIR(gpu.target, part=part, uuid=gpu.uuid)
        if read(nvml, unrepairable_memory, gpu, trouble):
            yield UNREPAIRABLE(gpu.target, uuid=gpu.uuid)
    yield from trouble
