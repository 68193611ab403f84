"""No GPU is as hot as where it slows itself down."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from checks.declare import check, code
from checks.gpu.ask import UNTOLD, answering, ask, opened, read
from checks.gpu.device import Device
from checks.gpu.nvml import Nvml
from checks.gpu.values import Gpu, Temperature
from checks.host import Host
from checks.wire import Finding

HOT = code(
    "gpu_hot",
    "warn",
    "node",
    "{celsius} degrees C, slows down at {slowdown}",
    explain="The GPU protects itself by running slower, and with it every rank of its job. "
    "Confirm: `nvidia-smi -q -d TEMPERATURE,PERFORMANCE -i <pci id>`. Do: look at fans, airflow, coolant.",
)


MEMORY_HOT = code(
    "gpu_memory_hot",
    "warn",
    "node",
    "memory at {celsius} degrees C, its limit is {limit}",
    explain="The memory is at the largest temperature that it was built to work at; the driver slows the GPU down. "
    "Confirm: `nvidia-smi -q -d TEMPERATURE,PERFORMANCE -i <pci id>`. Do: look at fans, airflow, coolant.",
)
_MEM_MAX = 2


@dataclass(frozen=True, slots=True)
class Margin:
    """Degrees left to where the GPU begins to hold itself back (T.Limit), and at how many the hardware cuts in."""

    celsius: int
    left: int
    slows_at: int


def margin_left(device: Device) -> Margin | None:
    """Newer boards tell no slowdown temperature, only how far it is."""
    (slows,) = device.fields("NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT")
    left = device.number("nvmlDeviceGetMarginTemperature")
    celsius = device.number("nvmlDeviceGetTemperature", 0)
    if slows is None or left is None or celsius is None:
        return None
    # Some drivers hand the negative number out as an unsigned one.
    return Margin(celsius, left, slows - (1 << 32) if slows >= 1 << 31 else slows)


def memory_heat(device: Device) -> tuple[int, int] | None:
    """Temperature of the memory and its own limit; None on boards without a sensor there or without a limit."""
    (celsius,) = device.fields("NVML_FI_DEV_MEMORY_TEMP")
    limit = device.number("nvmlDeviceGetTemperatureThreshold", _MEM_MAX) if celsius else None
    return (celsius, limit) if celsius and limit else None


@check(lane="nvml", interval=120, timeout=5.0, codes=(HOT, MEMORY_HOT, *UNTOLD))
def gpu_thermal(host: Host, *, margin: int = 0) -> Iterator[Finding]:
    """Temperature of each GPU and its memory against the device's own limits less ``margin`` degrees C.

    A board that tells no slowdown temperature is judged by the margin it tells (T.Limit).
    Confirm by hand: ``nvidia-smi -q -d TEMPERATURE``.
    """
    nvml = opened(host)
    trouble: list[Finding] = []
    for gpu in answering(nvml):
        heat = _heat(nvml, gpu, trouble)
        if heat is not None and 0 < heat.slowdown - margin <= heat.celsius:
            yield HOT(gpu.target, celsius=heat.celsius, slowdown=heat.slowdown, uuid=gpu.uuid)
        memory = read(nvml, memory_heat, gpu, trouble)
        if memory is not None and 0 < memory[1] - margin <= memory[0]:
            yield MEMORY_HOT(gpu.target, celsius=memory[0], limit=memory[1], uuid=gpu.uuid)
    yield from trouble


def _heat(nvml: Nvml, gpu: Gpu, trouble: list[Finding]) -> Temperature | None:
    """The temperature and where the GPU slows down, worked out of the margin where only that is told."""
    before = len(trouble)
    told = ask(nvml.temperature, gpu, trouble)
    if told is not None or len(trouble) > before:
        return told
    left = read(nvml, margin_left, gpu, trouble)
    return None if left is None else Temperature(left.celsius, left.celsius + left.left - left.slows_at)
