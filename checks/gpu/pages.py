"""No GPU that retires memory pages has a page waiting for it or has retired too many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from checks.declare import check, code
from checks.gpu.ask import UNTOLD, answering, opened, read
from checks.gpu.device import Device
from checks.gpu.values import Fault, NvmlError
from checks.host import Host
from checks.wire import Finding

PENDING = code(
    "gpu_pages_pending",
    "warn",
    "node",
    "a memory page waits to be retired at the next GPU reset ({retired} retired so far)",
    explain="A program that gets this page may meet its errors again. "
    "Confirm: `nvidia-smi -q -d PAGE_RETIREMENT -i <pci id>`. Do: when idle, reset the GPU or reboot.",
)
MANY = code(
    "gpu_pages_many",
    "warn",
    "node",
    "{retired} memory pages retired ({double} for errors of two bits), limit {limit}",
    explain="NVIDIA's criterion for a replacement; at 64 no page can be retired any more. "
    "Confirm: `nvidia-smi -q -d PAGE_RETIREMENT -i <pci id>`. Do: replace the GPU.",
)


@dataclass(frozen=True, slots=True)
class Pages:
    """Pages retired for repeated errors of one bit and for errors of two, and whether one waits."""

    single: int
    double: int
    pending: bool

    def retired(self) -> int:
        return self.single + self.double


def retired_pages(device: Device) -> Pages:
    """Boards older than Ampere; later ones remap rows instead."""
    single, double, pending = device.fields(
        "NVML_FI_DEV_RETIRED_SBE", "NVML_FI_DEV_RETIRED_DBE", "NVML_FI_DEV_RETIRED_PENDING"
    )
    if single is None and double is None and pending is None:
        raise NvmlError(Fault.NOT_SUPPORTED)
    return Pages(single or 0, double or 0, bool(pending))


@check(lane="nvml", interval=3600, timeout=5.0, codes=(PENDING, MANY, *UNTOLD))
def gpu_pages(host: Host, *, limit: int = 60) -> Iterator[Finding]:
    """Retired pages of each GPU against ``limit`` (60, NVIDIA's dynamic page retirement; DCGM fails at 63).

    Confirm by hand: ``nvidia-smi -q -d PAGE_RETIREMENT``.
    """
    nvml = opened(host)
    trouble: list[Finding] = []
    for gpu in answering(nvml):
        pages = read(nvml, retired_pages, gpu, trouble)
        if pages is None:
            continue
        if pages.retired() >= limit:
            yield MANY(gpu.target, retired=pages.retired(), double=pages.double, limit=limit, uuid=gpu.uuid)
        elif pages.pending:
            yield PENDING(gpu.target, retired=pages.retired(), uuid=gpu.uuid)
    yield from trouble
