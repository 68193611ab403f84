"""No GPU is set to lower clocks than it comes with."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import check, code
from checks.gpu.ask import UNTOLD, answering, opened, read
from checks.gpu.device import Device
from checks.gpu.values import Fault, NvmlError
from checks.host import Host
from checks.wire import Finding

SET_LOW = code(
    "gpu_clock_set_low",
    "warn",
    "config",
    "application clock of {domain} is set to {clock} MHz, expected {expected} MHz ({origin})",
    explain="Programs run slower here than on other nodes; somebody set the clock and did not set it back. "
    "Confirm: `nvidia-smi -q -d CLOCK -i <pci id>`. Do: `nvidia-smi -rac -i <pci id>`.",
)
_DOMAINS = {"graphics": 0, "memory": 2}


def application_clocks(device: Device) -> dict[str, tuple[int, int]]:
    """MHz that programs are given and the board's own default, by domain; drivers of 2026 do not tell any more."""
    found = {}
    for name, number in _DOMAINS.items():
        now = device.number("nvmlDeviceGetApplicationsClock", number)
        usual = device.number("nvmlDeviceGetDefaultApplicationsClock", number)
        if now:
            found[name] = (now, usual or 0)
    if not found:
        raise NvmlError(Fault.NOT_SUPPORTED)
    return found


@check(lane="nvml", interval=3600, timeout=5.0, codes=(SET_LOW, *UNTOLD))
def gpu_app_clocks(host: Host, *, graphics_mhz: int = 0, memory_mhz: int = 0) -> Iterator[Finding]:
    """Application clocks of each GPU against ``graphics_mhz`` and ``memory_mhz``, or the board's own defaults.

    Confirm by hand: ``nvidia-smi -q -d CLOCK``.
    """
    nvml = opened(host)
    wanted = {"graphics": graphics_mhz, "memory": memory_mhz}
    trouble: list[Finding] = []
    for gpu in answering(nvml):
        for domain, (now, usual) in (read(nvml, application_clocks, gpu, trouble) or {}).items():
            asked = wanted[domain]
            expected, origin = (asked, "configured") if asked else (usual, "the board's default")
            if now < expected:
                yield SET_LOW(gpu.target, domain=domain, clock=now, expected=expected, origin=origin, uuid=gpu.uuid)
    yield from trouble
