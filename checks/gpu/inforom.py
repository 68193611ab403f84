"""The infoROM of every GPU is whole."""

from __future__ import annotations

from collections.abc import Iterator

from checks.declare import check
from checks.gpu.ask import UNTOLD, answering, opened, read
from checks.gpu.device import Device
from checks.gpu.health import INFOROM
from checks.gpu.values import Fault, NvmlError
from checks.host import Host
from checks.wire import Finding


def inforom_whole(device: Device) -> bool:
    """Whether the driver, which proves the checksums of the stored parts, finds no fault in them."""
    try:
        device.call("nvmlDeviceValidateInforom")
    except NvmlError as error:
        if error.fault is Fault.CORRUPTED_INFOROM:
            return False
        raise
    return True


@check(lane="nvml", interval=3600, timeout=5.0, codes=(INFOROM, *UNTOLD))
def gpu_inforom_whole(host: Host) -> Iterator[Finding]:
    """Checksums of each GPU's infoROM; a GPU with a bad one works, so it is a warning.

    Confirm by hand: ``nvidia-smi`` ends with "infoROM is corrupted at gpu <pci id>".
    """
    nvml = opened(host)
    trouble: list[Finding] = []
    for gpu in answering(nvml):
        if read(nvml, inforom_whole, gpu, trouble) is False:
            yield INFOROM(gpu.target, uuid=gpu.uuid)
    yield from trouble
