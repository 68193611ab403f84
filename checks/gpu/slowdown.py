"""No GPU is slowed down by heat or by its power supply for a part of the time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from checks.declare import Code, check, code, ok
from checks.gpu.ask import UNTOLD, answering, opened, read
from checks.gpu.device import Device
from checks.gpu.samples import Samples
from checks.host import Host
from checks.wire import Finding

CONFIRM = (
    'The bits: `nvidia-smi -q -d PERFORMANCE -i <pci id>`, and how long so far: the same twice, "Counters". '
    "Software power cap, idle, sync boost and clocks that somebody set are normal and are not told here. "
)
THERMAL = code(
    "gpu_slowdown_thermal",
    "warn",
    "node",
    "hardware thermal slowdown for {percent} % of {seconds:.0f} s, limit {limit} %",
    explain="The GPU halves its clocks or worse to stay whole, and every rank of its job waits for it. "
    f"Confirm: {CONFIRM}Do: look at fans, airflow, coolant, thermal paste.",
)
BRAKE = code(
    "gpu_slowdown_power_brake",
    "warn",
    "node",
    "hardware power brake for {percent} % of {seconds:.0f} s, limit {limit} %",
    explain="The board is told from outside to halve its clocks: a power supply failed, is overloaded or the chassis "
    f"limits its power. Confirm: {CONFIRM}`ipmitool sdr type 'Power Supply'`. Do: look at power supplies and feeds.",
)
SOFT = code(
    "gpu_slowdown_sw_thermal",
    "warn",
    "node",
    "software thermal slowdown for {percent} % of {seconds:.0f} s, limit {limit} %",
    explain="The driver lowers the clocks to hold the GPU or its memory below their largest temperature of operation. "
    f"Confirm: {CONFIRM}`nvidia-smi -q -d TEMPERATURE`. Do: look at fans, airflow, coolant.",
)
HARD = code(
    "gpu_slowdown_hw",
    "warn",
    "node",
    "hardware slowdown of no cause given for {percent} % of {seconds:.0f} s, limit {limit} %",
    explain="The clocks are cut by the hardware (heat, an external brake or a fast power trigger). "
    f"Confirm: {CONFIRM}Do: look at temperature, power cables and supplies.",
)

IDLE, HW, SW_THERMAL, HW_THERMAL, HW_BRAKE = 0x1, 0x8, 0x20, 0x40, 0x80
"""Bits of NVML's clocks event reasons. Left alone: 0x2 clocks set, 0x4 power cap, 0x10 sync boost, 0x100 display."""

_CAUSES: tuple[tuple[Code, int], ...] = ((THERMAL, HW_THERMAL), (BRAKE, HW_BRAKE), (SOFT, SW_THERMAL), (HARD, HW))
_LOOKS, _LEAST = 3, 120.0


@dataclass(frozen=True, slots=True)
class Slowed:
    """Nanoseconds so far under each cause, by its bit; None where the driver does not count."""

    counted: dict[int, int | None]

    def of(self, bit: int) -> int | None:
        return self.counted.get(bit)


def event_reasons(device: Device) -> int:
    """What holds the clocks down at this moment; "throttle" is the older name of the same call."""
    told = device.number("nvmlDeviceGetCurrentClocksEventReasons")
    return told if told is not None else int(device.call("nvmlDeviceGetCurrentClocksThrottleReasons"))


def slowed(device: Device) -> Slowed:
    """The accumulated times, which see what happens between two looks."""
    soft, hard, brake = device.fields(
        "NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN",
        "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN",
        "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN",
    )
    return Slowed({SW_THERMAL: soft, HW_THERMAL: hard, HW_BRAKE: brake})


Seen = Samples[tuple[int, Slowed]]


@check(lane="nvml", interval=120, timeout=5.0, codes=(THERMAL, BRAKE, SOFT, HARD, *UNTOLD))
def gpu_slowdown(host: Host, *, share: int = 10, looks_share: int = 60, within: float = 600.0) -> Iterator[Finding]:
    """Share of the last ``within`` seconds in which heat or the power supply held the clocks down.

    Where the driver counts the time, ``share`` percent of it is too much (DCGM warns at any time at all, which a
    short peak reaches); else ``looks_share`` percent of the looks (gpud's 0.6 a minute). One look proves nothing.
    Confirm by hand: ``nvidia-smi -q -d PERFORMANCE``.
    """
    nvml = opened(host)
    kept = host.kept("gpu_slowdown", dict[str, Seen])
    trouble: list[Finding] = []
    for gpu in answering(nvml):
        bits = read(nvml, event_reasons, gpu, trouble)
        if bits is None:
            continue
        times = read(nvml, slowed, gpu, trouble) or Slowed({})
        seen = kept.setdefault(gpu.uuid or gpu.target, Samples(within))
        seen.add(host.clock(), (bits, times))
        for found in _judge(seen, share, looks_share):
            yield found(gpu.target, gpu.uuid)
    yield from trouble


@dataclass(frozen=True, slots=True)
class _Found:
    made: Code
    percent: int
    seconds: float
    limit: int
    proven: bool

    def __call__(self, target: str, uuid: str) -> Finding:
        if not self.proven:
            return ok(target, "slowed down at this moment, which one look does not prove to last", uuid=uuid)
        return self.made(target, percent=self.percent, seconds=self.seconds, limit=self.limit, uuid=uuid)


def _judge(seen: Seen, share: int, looks_share: int) -> Iterator[_Found]:
    enough = len(seen.seen) >= _LOOKS and seen.seconds() >= _LEAST
    for made, bit in _CAUSES:
        percent, limit = _counted(seen, bit), share
        if percent is None:
            percent, limit = _looked(seen, bit), looks_share
        if percent >= limit and enough:
            yield _Found(made, percent, seen.seconds(), limit, proven=True)
        elif percent >= limit and _active(seen.seen[-1][1][0], bit):
            yield _Found(made, percent, seen.seconds(), limit, proven=False)


def _counted(seen: Seen, bit: int) -> int | None:
    """Percent of the time by the driver's count; None where it does not count, or began anew, or there is one look."""
    first, last = seen.seen[0][1][1].of(bit), seen.seen[-1][1][1].of(bit)
    if first is None or last is None or last < first or seen.seconds() <= 0:
        return None
    return min(100, int((last - first) / seen.seconds() / 1e7))


def _looked(seen: Seen, bit: int) -> int:
    """Percent of the looks that saw it."""
    found = [_active(bits, bit) for bits, _ in seen.values()]
    return round(100 * sum(found) / len(found))


def _active(bits: int, bit: int) -> bool:
    """A slowdown of no cause is none on an idle GPU, whose low clocks are the same thing."""
    if bit == HW:
        return bool(bits & HW) and not bits & (HW_THERMAL | HW_BRAKE | IDLE)
    return bool(bits & bit)
