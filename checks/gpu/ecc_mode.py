"""Every GPU corrects memory errors as its profile expects, now and after its next reset."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import check, code
from checks.gpu.ask import UNTOLD, answering, opened, read
from checks.gpu.device import Device
from checks.host import Host
from checks.wire import Finding

WRONG = code(
    "gpu_ecc_mode",
    "warn",
    "config",
    "ECC is {mode}, expected {expected}",
    explain="Without ECC a flipped bit in memory is neither corrected nor seen. "
    "Confirm: `nvidia-smi -q -d ECC -i <pci id>`. Do: `nvidia-smi -e 1 -i <pci id>` and reset the GPU; where the site "
    "wants it so, set [checks.gpu_ecc_mode] expected.",
)
PENDING = code(
    "gpu_ecc_mode_pending",
    "warn",
    "config",
    "ECC is {mode} and will be {pending} after the next reset",
    explain="Somebody set the mode and did not reset the GPU. Confirm: `nvidia-smi -q -d ECC -i <pci id>`. "
    "Do: set it back, or reset the GPU when it is idle.",
)


def ecc_mode(device: Device) -> tuple[bool, bool]:
    """Now, and after the next reset."""
    now, pending = device.call("nvmlDeviceGetEccMode")
    return bool(now), bool(pending)


@check(lane="nvml", interval=3600, timeout=5.0, codes=(WRONG, PENDING, *UNTOLD))
def gpu_ecc_mode(host: Host, *, expected: str = "") -> Iterator[Finding]:
    """ECC mode of each GPU against ``expected`` (on, off, empty for whatever it is), and a change that waits.

    Confirm by hand: ``nvidia-smi -q -d ECC``.
    """
    nvml = opened(host)
    trouble: list[Finding] = []
    for gpu in answering(nvml):
        told = read(nvml, ecc_mode, gpu, trouble)
        if told is None:
            continue
        mode, pending = ("on" if on else "off" for on in told)
        if mode != pending:
            yield PENDING(gpu.target, mode=mode, pending=pending, uuid=gpu.uuid)
        if expected and mode != expected:
            yield WRONG(gpu.target, mode=mode, expected=expected, uuid=gpu.uuid)
    yield from trouble
