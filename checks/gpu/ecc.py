"""No GPU has met memory errors that ECC could not correct."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

from checks.declare import check, code, ok
from checks.gpu.ask import UNTOLD, answering, ask, opened
from checks.gpu.device import Device
from checks.gpu.nvml import Nvml
from checks.gpu.values import Fault, Gpu, NvmlError
from checks.host import Host
from checks.wire import Finding

UNCORRECTED = code(
    "gpu_ecc_uncorrected",
    "warn",
    "node",
    "{volatile} uncorrected memory errors since the driver was loaded{where}, limit 0",
    explain="The row was or will be remapped: gpu_remap and the recovery action in gpu_health decide whether the GPU "
    "must be reset. Confirm: `nvidia-smi -q -d ECC,ROW_REMAPPER -i <pci id>`."
    " Do: nothing by itself; look at gpu_remap.",
)
NO_REMAP = code(
    "gpu_ecc_uncorrected_no_remap",
    "fail",
    "node",
    "{volatile} uncorrected memory errors since the driver was loaded{where}, limit 0, and the GPU cannot remap rows",
    explain="Confirm: `nvidia-smi -q -d ECC,PAGE_RETIREMENT -i <pci id>`. Do: let jobs end, reset or reboot so that "
    "the page is retired; replace the GPU when it returns.",
)
SRAM = code(
    "gpu_sram_threshold",
    "fail",
    "node",
    "SRAM errors exceed the device's own threshold ({aggregate} uncorrected over its life)",
    explain="NVIDIA's criterion for a replacement. Confirm: `nvidia-smi -q -d ECC -i <pci id> | grep -i threshold`. "
    "Do: replace the GPU.",
)


_VOLATILE, _UNCORRECTED, _INVALID_ARGUMENT = 0, 1, 2
# Which of them a GPU counts differs by its generation: DRAM and SRAM since Ampere, the single caches before.
_PLACES = {2: "DRAM", 7: "SRAM", 0: "L1", 1: "L2", 3: "register file", 4: "texture memory", 6: "CBU"}


def error_places(device: Device) -> dict[str, int]:
    """Uncorrected errors since the driver was loaded, by place; what a GPU does not count is left out."""
    found: dict[str, int] = {}
    for place, name in _PLACES.items():
        try:
            count = device.number("nvmlDeviceGetMemoryErrorCounter", _UNCORRECTED, _VOLATILE, place)
        except NvmlError as error:
            if getattr(error.__cause__, "value", None) != _INVALID_ARGUMENT:
                raise
            count = None
        if count:
            found[name] = count
    found |= _sram_kinds(device) if "SRAM" in found else {}
    return found


def _sram_kinds(device: Device) -> dict[str, int]:
    """Errors in SRAM by what found them: parity or the code (SEC-DED)."""
    made = getattr(device.lib, "c_nvmlEccSramErrorStatus_v1_t", None)
    if made is None:
        return {}
    status = made()
    device.call("nvmlDeviceGetSramEccErrorStatus", ctypes.byref(status))
    kinds = {"SRAM parity": int(status.volatileUncParity), "SRAM SEC-DED": int(status.volatileUncSecDed)}
    return {name: count for name, count in kinds.items() if count}


@check(lane="nvml", interval=120, timeout=5.0, codes=(UNCORRECTED, NO_REMAP, SRAM, *UNTOLD))
def gpu_ecc(host: Host) -> Iterator[Finding]:
    """Uncorrected errors of each GPU; those of earlier loads of the driver are only kept as a number.

    Limits: 0 uncorrected since driver load (NVIDIA's GPU memory error guide); the SRAM threshold is the device's own.
    Confirm by hand: ``nvidia-smi -q -d ECC``.
    """
    nvml = opened(host)
    trouble: list[Finding] = []
    for gpu in answering(nvml):
        ecc = ask(nvml.ecc, gpu, trouble)
        if ecc is None:
            continue
        numbers = {"volatile": ecc.volatile_uncorrected, "aggregate": ecc.aggregate_uncorrected}
        if ecc.sram_threshold_exceeded:
            yield SRAM(gpu.target, uuid=gpu.uuid, **numbers)
        elif ecc.volatile_uncorrected:
            made = UNCORRECTED if _remaps(nvml, gpu) else NO_REMAP
            yield made(gpu.target, uuid=gpu.uuid, where=_where(nvml, gpu), **numbers)
        elif ecc.aggregate_uncorrected:
            yield ok(gpu.target, "no new uncorrected error", **numbers)
    yield from trouble


def _where(nvml: Nvml, gpu: Gpu) -> str:
    """In which memory, where the GPU says; not saying so hides no error."""
    try:
        places = nvml.read(error_places, gpu)
    except NvmlError:
        return ""
    return f" ({', '.join(f'{name} {count}' for name, count in places.items())})" if places else ""


def _remaps(nvml: Nvml, gpu: Gpu) -> bool:
    """Whether the GPU remaps rows; a failure to say so is taken for yes, the milder reading."""
    try:
        nvml.remap(gpu)
    except NvmlError as error:
        return error.fault is not Fault.NOT_SUPPORTED
    return True
