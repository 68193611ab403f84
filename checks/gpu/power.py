"""Every GPU tells what power it draws and may draw what it was built for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from checks.declare import check, code
from checks.gpu.ask import UNTOLD, answering, opened, read
from checks.gpu.device import Device
from checks.host import Host
from checks.wire import Finding

UNREADABLE = code(
    "gpu_power_unreadable",
    "warn",
    "node",
    "power draw reads {draw:g} W, power limit {limit:g} W",
    explain="The sensor or its controller fails; the GPU may hold itself at low clocks to be safe. "
    "Confirm: `nvidia-smi -q -d POWER -i <pci id>`. Do: when idle, reset the GPU or power-cycle; if it stays, replace.",
)
LIMITED = code(
    "gpu_power_limited",
    "warn",
    "config",
    "power limit {limit:g} W, expected {expected:g} W ({origin})",
    explain="The GPU is held at less power than expected and runs slower than its like. "
    "Confirm: `nvidia-smi -q -d POWER -i <pci id>`. Do: `nvidia-smi -pl <watts> -i <pci id>`; where the site wants it "
    "so, set [checks.gpu_power] watts.",
)
_ROUNDED = 1.0


@dataclass(frozen=True, slots=True)
class Power:
    """Watts: drawn now, the limit somebody set, the lowest limit in force, and the one the device came with."""

    draw: float | None = None
    limit: float | None = None
    enforced: float | None = None
    default: float | None = None


def power(device: Device) -> Power:
    """NVML speaks of milliwatts."""
    told = [
        device.number(name)
        for name in (
            "nvmlDeviceGetPowerUsage",
            "nvmlDeviceGetPowerManagementLimit",
            "nvmlDeviceGetEnforcedPowerLimit",
            "nvmlDeviceGetPowerManagementDefaultLimit",
        )
    ]
    return Power(*(None if value is None else value / 1000 for value in told))


@check(lane="nvml", interval=300, timeout=5.0, codes=(UNREADABLE, LIMITED, *UNTOLD))
def gpu_power(host: Host, *, watts: float = 0.0) -> Iterator[Finding]:
    """Power draw of each GPU is readable, and its limit in force is the device's own default, or ``watts``.

    Confirm by hand: ``nvidia-smi -q -d POWER``.
    """
    nvml = opened(host)
    trouble: list[Finding] = []
    for gpu in answering(nvml):
        told = read(nvml, power, gpu, trouble)
        if told is not None:
            yield from _judge(gpu.target, gpu.uuid, told, watts)
    yield from trouble


def _judge(target: str, uuid: str, told: Power, watts: float) -> Iterator[Finding]:
    limits = [limit for limit in (told.enforced, told.limit) if limit]
    if not limits:
        return  # a board that does not manage its power has nothing to be held to
    limit = min(limits)
    # None: the board does not measure. One that does draws some watts at rest, and never several times its limit.
    if told.draw is not None and not 0 < told.draw <= 4 * max(limits):
        yield UNREADABLE(target, draw=told.draw, limit=limit, uuid=uuid)
    expected, origin = (watts, "configured") if watts else (told.default or 0.0, "the device's default")
    if limit < expected - _ROUNDED:
        yield LIMITED(target, limit=limit, expected=expected, origin=origin, uuid=uuid)
