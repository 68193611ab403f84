"""No GPU corrects memory errors in masses."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import check, code
from checks.gpu.ask import UNTOLD, answering, opened, read
from checks.gpu.device import Device
from checks.gpu.values import Fault, NvmlError
from checks.growth import counters
from checks.host import Host
from checks.wire import Finding

STORM = code(
    "gpu_ecc_corrected",
    "warn",
    "node",
    "{growth} memory errors corrected within {seconds:.0f} s, limit {limit}",
    explain="Results are right; so many say that a part of the memory wears out. "
    "Confirm: `nvidia-smi -q -d ECC -i <pci id>` twice. Do: watch gpu_remap, plan a replacement when it stays.",
)
DAY = 86400.0


def corrected(device: Device) -> int:
    """Errors corrected since the driver was loaded."""
    (count,) = device.fields("NVML_FI_DEV_ECC_SBE_VOL_TOTAL")
    if count is None:
        raise NvmlError(Fault.NOT_SUPPORTED)
    return count


@check(lane="nvml", interval=900, timeout=5.0, codes=(STORM, *UNTOLD))
def gpu_ecc_corrected(host: Host, *, limit: int = 1_000_000) -> Iterator[Finding]:
    """Growth of each GPU's corrected errors within a day against ``limit``; what stood before is history.

    Others judge the sum (20,000,000 in azurehpc, 50,000,000 in gcm), which only tells how long the driver has been
    loaded. Confirm by hand: ``nvidia-smi -q -d ECC``.
    """
    nvml = opened(host)
    watched = counters(host, "gpu_ecc_corrected")
    trouble: list[Finding] = []
    for gpu in answering(nvml):
        count = read(nvml, corrected, gpu, trouble)
        if count is None:
            continue
        grown = watched.of(gpu.uuid or gpu.target).over(host.clock(), count, DAY)
        if grown.beyond(limit, DAY):
            yield STORM(gpu.target, growth=grown.count, seconds=grown.seconds, limit=limit, uuid=gpu.uuid)
    host.keep("counters", watched.plain())
    yield from trouble
