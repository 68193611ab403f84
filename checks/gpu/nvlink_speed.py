"""Every NVLink that is up runs at its full speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from checks.declare import Skip, check, code
from checks.gpu.ask import UNTOLD, answering, ask, opened, read
from checks.gpu.device import Device
from checks.gpu.values import Gpu
from checks.host import Host
from checks.wire import Finding

SLOW = code(
    "gpu_nvlink_slow",
    "warn",
    "node",
    "{count} of {up} NVLinks at less than {limit:g} GB/s, the slowest, {link}, at {slowest:g}",
    explain="Collectives run at the speed of the slowest link. Where all links of all GPUs are alike, a bandwidth mode "
    "was chosen. Confirm: `nvidia-smi nvlink -s -i <pci id>`, `nvidia-smi nvlink -gBwMode`. Do: set the mode, or reset "
    "the GPUs when idle; if one stays slow, replace.",
)
MOST_LINKS = 36


def link_speeds(device: Device) -> dict[int, float]:
    """GB/s of each link in one direction, 0 of one that is down."""
    (links,) = device.fields("NVML_FI_DEV_NVLINK_LINK_COUNT")
    speed = "NVML_FI_DEV_NVLINK_GET_SPEED"
    told = device.scoped(*((speed, link) for link in range(min(links or 0, MOST_LINKS))))
    return {link: value / 1000 for (_, link), value in told.items()}


@check(lane="nvml", interval=600, timeout=5.0, codes=(SLOW, *UNTOLD), only_with=("min_gbytes",))
def gpu_nvlink_speed(host: Host, *, min_gbytes: float = 0.0) -> Iterator[Finding]:
    """Speed of each link that is up against ``min_gbytes`` GB/s in one direction, from the profile.

    Makers round, so a tenth less is borne; whether a link is up gpu_nvlink tells. A GPU in MIG mode has no NVLink and
    is left alone. Confirm by hand: ``nvidia-smi nvlink -s``.
    """
    if not min_gbytes:
        raise Skip("no speed of NVLinks is promised")
    nvml = opened(host)
    trouble: list[Finding] = []
    for gpu in answering(nvml):
        if not ask(nvml.mig, gpu, trouble):
            yield from _slow(gpu, read(nvml, link_speeds, gpu, trouble) or {}, min_gbytes)
    yield from trouble


def _slow(gpu: Gpu, speeds: Mapping[int, float], limit: float) -> Iterator[Finding]:
    up = {link: speed for link, speed in speeds.items() if speed > 0}
    slow = {link: speed for link, speed in up.items() if speed < 0.9 * limit}
    if slow:
        link, slowest = min(slow.items(), key=lambda item: item[1])
        values = {"count": len(slow), "up": len(up), "link": link, "slowest": slowest, "limit": limit}
        yield SLOW(gpu.target, **values, uuid=gpu.uuid)
