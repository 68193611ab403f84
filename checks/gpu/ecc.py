"""No GPU has met memory errors that ECC could not correct."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import check, code, ok
from checks.gpu.ask import GPU_UNANSWERED, answering, ask, opened
from checks.gpu.nvml import Nvml
from checks.gpu.values import Fault, Gpu, NvmlError
from checks.host import Host
from checks.wire import Finding

UNCORRECTED = code(
    "gpu_ecc_uncorrected",
    "warn",
    "node",
    "{volatile} uncorrected memory errors since the driver was loaded, limit 0",
    explain="The row was or will be remapped: gpu_remap and the recovery action in gpu_health decide whether the GPU "
    "must be reset. Confirm: `nvidia-smi -q -d ECC,ROW_REMAPPER -i <pci id>`.",
)
NO_REMAP = code(
    "gpu_ecc_uncorrected_no_remap",
    "fail",
    "node",
    "{volatile} uncorrected memory errors since the driver was loaded, limit 0, and the GPU cannot remap rows",
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


@check(lane="nvml", interval=120, timeout=5.0, codes=(UNCORRECTED, NO_REMAP, SRAM, GPU_UNANSWERED))
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
            yield made(gpu.target, uuid=gpu.uuid, **numbers)
        elif ecc.aggregate_uncorrected:
            yield ok(gpu.target, "no new uncorrected error", **numbers)
    yield from trouble


def _remaps(nvml: Nvml, gpu: Gpu) -> bool:
    """Whether the GPU remaps rows; a failure to say so is taken for yes, the milder reading."""
    try:
        nvml.remap(gpu)
    except NvmlError as error:
        return error.fault is not Fault.NOT_SUPPORTED
    return True
