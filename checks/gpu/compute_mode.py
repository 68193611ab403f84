"""Every GPU lets programs compute on it in the way that the site expects."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import check, code
from checks.gpu.ask import UNTOLD, answering, opened, read
from checks.gpu.device import Device
from checks.host import Host
from checks.wire import Finding

PROHIBITED = code(
    "gpu_compute_prohibited",
    "fail",
    "config",
    "compute mode prohibited: no program can use this GPU",
    explain='Somebody set the mode by hand; every CUDA program ends with "all devices are busy or unavailable". '
    "Confirm: `nvidia-smi -q -d COMPUTE -i <pci id>`. Do: `nvidia-smi -c DEFAULT -i <pci id>`.",
)
OTHER = code(
    "gpu_compute_mode",
    "warn",
    "config",
    "compute mode {mode}, expected {expected}",
    explain="In the exclusive mode a second process on the same GPU cannot start: MPI ranks that share it, profilers, "
    "MPS clients without their server. Confirm: `nvidia-smi -q -d COMPUTE -i <pci id>`. "
    "Do: `nvidia-smi -c <mode> -i <pci id>`.",
)
_NAMES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}


def compute_mode(device: Device) -> int:
    return int(device.call("nvmlDeviceGetComputeMode"))


@check(lane="nvml", interval=600, timeout=5.0, codes=(PROHIBITED, OTHER, *UNTOLD))
def gpu_compute_mode(host: Host, *, mode: str = "") -> Iterator[Finding]:
    """A prohibited GPU is of no use to anybody; any other mode is compared with ``mode`` where one is expected.

    Modes: default, exclusive_process, prohibited. Confirm by hand: ``nvidia-smi -q -d COMPUTE``.
    """
    nvml = opened(host)
    trouble: list[Finding] = []
    for gpu in answering(nvml):
        number = read(nvml, compute_mode, gpu, trouble)
        if number is None:
            continue
        name = _NAMES.get(number, f"number {number}")
        if name == "prohibited" != mode:
            yield PROHIBITED(gpu.target, uuid=gpu.uuid)
        elif mode and name != mode:
            yield OTHER(gpu.target, mode=name, expected=mode, uuid=gpu.uuid)
    yield from trouble
