"""Every GPU runs the system processor's firmware (GSP) that belongs to the driver."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass

from checks.declare import check, code
from checks.gpu.ask import UNTOLD, answering, opened, read
from checks.gpu.device import Device
from checks.gpu.nvml import Nvml
from checks.gpu.values import NvmlError
from checks.host import Host
from checks.wire import Finding

MODE = code(
    "gpu_gsp_mode",
    "warn",
    "config",
    "GSP firmware is {mode}, {than}",
    explain="One node or GPU then runs another half of the driver than its like. Confirm: "
    "`nvidia-smi -q -i <pci id> | grep -i gsp`, `cat /proc/driver/nvidia/params | grep EnableGpuFirmware`. "
    "Do: set the module option NVreg_EnableGpuFirmware alike on all nodes and reload the driver.",
)
VERSION = code(
    "gpu_gsp_version",
    "warn",
    "config",
    "GSP firmware {version} under driver {driver}",
    explain="The firmware files of another driver were loaded: an upgrade was interrupted. "
    "Confirm: `nvidia-smi -q -i <pci id> | grep -i gsp`, `ls /lib/firmware/nvidia`. Do: reinstall the driver, reboot.",
)


_VERSION = 64
"""Bytes that NVML asks for (NVML_GSP_FIRMWARE_VERSION_BUF_SIZE)."""


@dataclass(frozen=True, slots=True)
class Gsp:
    """Whether the firmware runs, and its version where it does."""

    on: bool
    version: str = ""


def gsp_firmware(device: Device) -> Gsp:
    """Asked with places for the answers, which pynvml of any age takes."""
    on, usual = ctypes.c_uint(), ctypes.c_uint()
    device.call("nvmlDeviceGetGspFirmwareMode", ctypes.byref(on), ctypes.byref(usual))
    if not on.value:
        return Gsp(on=False)
    version = ctypes.create_string_buffer(_VERSION)
    try:
        device.call("nvmlDeviceGetGspFirmwareVersion", version)
    except NvmlError:
        return Gsp(on=True)
    return Gsp(True, version.value.decode("utf-8", "replace"))


@check(lane="nvml", interval=3600, timeout=5.0, codes=(MODE, VERSION, *UNTOLD))
def gpu_gsp(host: Host, *, expected: str = "") -> Iterator[Finding]:
    """GSP firmware mode against ``expected`` (on, off, empty for whatever it is) and alike in the node, its version
    the driver's.

    Switched off is a known remedy for Xid 119 before Hopper, so by itself it is no trouble. Confirm by hand:
    ``nvidia-smi -q | grep -i gsp``.
    """
    nvml = opened(host)
    trouble: list[Finding] = []
    told = [(gpu, found) for gpu in answering(nvml) if (found := read(nvml, gsp_firmware, gpu, trouble)) is not None]
    modes = ["on" if found.on else "off" for _, found in told]
    usual = max(sorted(set(modes)), key=modes.count, default="")
    driver = _driver(nvml) if told else ""
    for gpu, found in told:
        mode = "on" if found.on else "off"
        if expected and mode != expected:
            yield MODE(gpu.target, mode=mode, than=f"expected {expected}", uuid=gpu.uuid)
        elif not expected and mode != usual:
            yield MODE(gpu.target, mode=mode, than=f"and {usual} on most GPUs of this node", uuid=gpu.uuid)
        if driver and found.version[:1].isdecimal() and found.version != driver:
            yield VERSION(gpu.target, version=found.version, driver=driver, uuid=gpu.uuid)
    yield from trouble


def _driver(nvml: Nvml) -> str:
    """Its version; gpu_driver judges one that does not say."""
    try:
        return nvml.driver()
    except NvmlError:
        return ""
