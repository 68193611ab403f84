"""Every busy GPU runs near its full clocks, or says why it does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from checks.declare import Code, check, code
from checks.gpu.ask import UNTOLD, answering, opened, read
from checks.gpu.device import Device
from checks.gpu.samples import Samples
from checks.gpu.slowdown import IDLE, event_reasons
from checks.gpu.values import Fault, NvmlError
from checks.host import Host
from checks.wire import Finding

CONFIRM = "Confirm: `nvidia-smi -q -d CLOCK,PERFORMANCE -i <pci id>` while a program computes on it. "
LOW = code(
    "gpu_clock_low",
    "warn",
    "node",
    "busy at {clock} of {most} MHz for {seconds:.0f} s and gives no reason",
    explain=f"Neither heat, power nor a setting holds the clock down, and it is down. {CONFIRM}"
    "Do: when idle, reset the GPU or reboot; compare with the other GPUs under the same load.",
)
MEMORY = code(
    "gpu_memory_clock_low",
    "warn",
    "node",
    "busy with memory at {clock} of {most} MHz for {seconds:.0f} s and gives no reason",
    explain=f"The memory does not leave a state of rest. {CONFIRM}Do: when idle, reset the GPU or reboot.",
)
LOCKED = code(
    "gpu_clock_locked",
    "warn",
    "config",
    "busy at {clock} of {most} MHz for {seconds:.0f} s, held there by a setting",
    explain=f"Somebody locked the clocks, often a benchmark that did not undo it. {CONFIRM}"
    "Do: `nvidia-smi -rgc -i <pci id>`, `nvidia-smi -rmc`, `nvidia-smi -rac`.",
)
_GRAPHICS, _MEMORY, _SET = 0, 2, 0x2
_LOOKS, _LEAST, _WITHIN, _BUSY = 3, 120.0, 600.0, 50


@dataclass(frozen=True, slots=True)
class Clocks:
    """MHz of one domain: now, and the least of what the board can do and what programs are given."""

    now: int
    most: int


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a GPU was in the last moment, in percent, and its clocks."""

    busy: int
    graphics: Clocks
    memory: Clocks


def load(device: Device) -> Load:
    """Clocks that programs are given (application clocks) are no longer told by the newest drivers."""
    busy = int(device.call("nvmlDeviceGetUtilizationRates").gpu)
    graphics, memory = (_clocks(device, domain) for domain in (_GRAPHICS, _MEMORY))
    return Load(busy, graphics, memory)


def _clocks(device: Device, domain: int) -> Clocks:
    now = device.number("nvmlDeviceGetClockInfo", domain)
    most = device.number("nvmlDeviceGetMaxClockInfo", domain)
    given = device.number("nvmlDeviceGetApplicationsClock", domain)
    if now is None or most is None:
        raise NvmlError(Fault.NOT_SUPPORTED)
    return Clocks(now, min(most, given or most))


@dataclass(frozen=True, slots=True)
class _Look:
    made: Code | None
    clocks: Clocks | None


@check(lane="nvml", interval=120, timeout=5.0, codes=(LOW, MEMORY, LOCKED, *UNTOLD))
def gpu_clocks(host: Host, *, low_pct: int = 70, memory_pct: int = 80, locked_pct: int = 90) -> Iterator[Finding]:
    """Clocks of each GPU that computes, in percent of what it can do, at three looks on end.

    An idle GPU is not looked at: its clocks are low as they should. One that tells a reason (heat, power, sync boost)
    is left to gpu_slowdown. Confirm by hand: ``nvidia-smi -q -d CLOCK,PERFORMANCE``.

    ``low_pct`` (graphics) and ``memory_pct``: what a GPU without a reason must reach. ``locked_pct``: the same for
    one whose clocks somebody set.
    """
    nvml = opened(host)
    kept = host.kept("gpu_clocks", dict[str, Samples[_Look]])
    trouble: list[Finding] = []
    for gpu in answering(nvml):
        key, look = gpu.uuid or gpu.target, None
        bits = read(nvml, event_reasons, gpu, trouble)
        if bits is not None and not bits & IDLE:
            told = read(nvml, load, gpu, trouble)
            look = None if told is None else _look(bits, told, (low_pct, memory_pct, locked_pct))
        if look is None or look.made is None or look.clocks is None:
            kept.pop(key, None)
            continue
        seen = kept.setdefault(key, Samples(_WITHIN))
        if seen.seen and seen.seen[-1][1].made is not look.made:
            seen.seen.clear()
        seen.add(host.clock(), look)
        if len(seen.seen) >= _LOOKS and seen.seconds() >= _LEAST:
            clocks = look.clocks
            yield look.made(gpu.target, clock=clocks.now, most=clocks.most, seconds=seen.seconds(), uuid=gpu.uuid)
    yield from trouble


def _look(bits: int, told: Load, percents: tuple[int, int, int]) -> _Look | None:
    """What one look says of a busy GPU; nothing where a reason but a setting is told."""
    low, memory, locked = percents
    if told.busy < _BUSY or bits & ~_SET:
        return None
    if bits & _SET:
        return _Look(LOCKED, told.graphics) if _under(told.graphics, locked) else None
    if _under(told.graphics, low):
        return _Look(LOW, told.graphics)
    return _Look(MEMORY, told.memory) if _under(told.memory, memory) else None


def _under(clocks: Clocks, percent: int) -> bool:
    return clocks.now * 100 < clocks.most * percent
