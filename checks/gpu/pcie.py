"""The PCI express link of every GPU is as wide and fast as its slot allows and repeats next to nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from checks.declare import check, code
from checks.gpu.ask import UNTOLD, answering, opened, read
from checks.gpu.device import Device
from checks.gpu.slowdown import IDLE, event_reasons
from checks.gpu.values import Gpu
from checks.growth import Counters, counters
from checks.host import Host
from checks.wire import Finding

REPLAYS = code(
    "gpu_pcie_replays",
    "warn",
    "node",
    "PCIe link repeated {growth} packets within {seconds:.0f} s, limit {limit} a minute",
    explain="Noise on the wire: each repetition costs bandwidth, many end in errors that do not correct themselves. "
    "Confirm: `nvidia-smi -q -i <pci id> | grep -i replay` twice, `dmesg | grep -i aer`. "
    "Do: reseat the card, look at riser, retimer and slot.",
)
NARROW = code(
    "gpu_pcie_width_low",
    "warn",
    "node",
    "PCIe link runs with {width} lanes, its slot allows {most}",
    explain="Lanes were given up at the last training of the link. "
    "Confirm: `nvidia-smi -q -i <pci id> | grep -A5 'GPU Link Info'`. Do: power-cycle, reseat or replace.",
)
SLOW = code(
    "gpu_pcie_speed_low",
    "warn",
    "node",
    "busy with its PCIe link at generation {generation}, its slot allows {most}",
    explain="An idle GPU slows its link down to save power; a busy one should not. Confirm: "
    "`nvidia-smi -q -i <pci id> | grep -A5 'GPU Link Info'` under load. Do: power-cycle, reseat or replace.",
)
_LOOKS, _LEAST, _HOUR = 3, 5, 3600.0
# Replays a minute and lane that a link of each generation may have (DCGM's health watch, rounded up over all lanes).
_RATES = {1: 0.15, 2: 0.3, 3: 0.48, 4: 0.96, 5: 1.92, 6: 3.84}


@dataclass(frozen=True, slots=True)
class PcieLink:
    """The link now and the most that device and slot can do together; 0 where the driver does not say."""

    generation: int = 0
    width: int = 0
    most_generation: int = 0
    most_width: int = 0
    replays: int | None = None


def pcie_state(device: Device) -> PcieLink:
    generation, width, most_generation, most_width = (
        device.number(name) or 0
        for name in (
            "nvmlDeviceGetCurrPcieLinkGeneration",
            "nvmlDeviceGetCurrPcieLinkWidth",
            "nvmlDeviceGetMaxPcieLinkGeneration",
            "nvmlDeviceGetMaxPcieLinkWidth",
        )
    )
    replays = device.number("nvmlDeviceGetPcieReplayCounter")
    return PcieLink(generation, width, most_generation, most_width, replays)


@dataclass(slots=True)
class _Kept:
    """At how many looks on end a GPU's link was narrow and slow."""

    narrow: int = 0
    slow: int = 0


@check(lane="nvml", interval=300, timeout=5.0, codes=(REPLAYS, NARROW, SLOW, *UNTOLD))
def gpu_pcie(host: Host) -> Iterator[Finding]:
    """Replays by growth and rate, width always, speed only of a GPU that is busy, each over more than one look.

    Width against a profile's promise is asked by pcie_link, which needs no driver. Confirm by hand:
    ``nvidia-smi -q | grep -A12 'GPU Link Info'``.
    """
    nvml = opened(host)
    kept, watched = host.kept("gpu_pcie", dict[str, _Kept]), counters(host, "gpu_pcie")
    trouble: list[Finding] = []
    for gpu in answering(nvml):
        link = read(nvml, pcie_state, gpu, trouble)
        if link is None:
            continue
        bits = read(nvml, event_reasons, gpu, trouble) if link.generation < link.most_generation else IDLE
        before = kept.setdefault(gpu.uuid or gpu.target, _Kept())
        before.narrow = before.narrow + 1 if 0 < link.width < link.most_width else 0
        before.slow = before.slow + 1 if bits is not None and not bits & IDLE and link.generation else 0
        yield from _link(gpu, link, before)
        yield from _replays(host, gpu, link, watched)
    host.keep("counters", watched.plain())
    yield from trouble


def _link(gpu: Gpu, link: PcieLink, kept: _Kept) -> Iterator[Finding]:
    if kept.narrow >= _LOOKS - 1:
        yield NARROW(gpu.target, width=link.width, most=link.most_width, uuid=gpu.uuid)
    if kept.slow >= _LOOKS:
        yield SLOW(gpu.target, generation=link.generation, most=link.most_generation, uuid=gpu.uuid)


def _replays(host: Host, gpu: Gpu, link: PcieLink, watched: Counters) -> Iterator[Finding]:
    """More a minute than such a link may have, and a minute's worth of five at least."""
    if link.replays is None:
        return
    grown = watched.of(gpu.uuid or gpu.target).over(host.clock(), link.replays, _HOUR)
    limit = math.ceil(_RATES.get(link.most_generation, _RATES[6]) * max(link.width, 1))
    if grown.beyond(limit * _LEAST, _LEAST * 60.0):
        yield REPLAYS(gpu.target, growth=grown.count, seconds=grown.seconds, limit=limit, uuid=gpu.uuid)
