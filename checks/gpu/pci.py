"""What the PCI bus says of NVIDIA devices, read without the driver."""

from __future__ import annotations

from dataclasses import dataclass

from checks.host import Host
from checks.pci import DEVICES, driver, functions

NVIDIA = "10de"
_DISPLAY, _OTHER_BRIDGE = 0x03, 0x0680
_HEADER = 64


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One PCI function; ``dead`` when its configuration space answers with all ones, ``lspci`` then says rev ff.

    ``driver`` is the kernel driver bound to it, empty when none is.
    """

    bdf: str
    dead: bool
    driver: str = ""

    @property
    def ours(self) -> bool:
        """Whether no other kernel driver holds it, such as vfio-pci or nouveau."""
        return self.driver in ("", "nvidia")


def pci_gpus(host: Host) -> tuple[PciDevice, ...]:
    """NVIDIA functions of class 03xx (display, 3D controller), virtual functions left out."""
    return host.once("pci gpus", lambda: _pci_gpus(host))


def has_gpus(host: Host) -> bool:
    """Whether there is any of them, without asking it."""
    return any(f.vendor == NVIDIA and f.kind >> 8 == _DISPLAY and not f.virtual for f in functions(host))


def _pci_gpus(host: Host) -> tuple[PciDevice, ...]:
    found = [f.bdf for f in functions(host) if f.vendor == NVIDIA and f.kind >> 8 == _DISPLAY and not f.virtual]
    return tuple(PciDevice(bdf, _dead(host, bdf), driver(host, bdf)) for bdf in found)


def pci_switches(host: Host) -> tuple[str, ...]:
    """PCI ids of the NVSwitches: NVIDIA functions of class 0680 (other bridge)."""
    return tuple(f.bdf for f in functions(host) if f.vendor == NVIDIA and f.kind == _OTHER_BRIDGE and not f.virtual)


def has_nvidia(host: Host) -> bool:
    """Whether anything at all speaks of an NVIDIA GPU here: a given library, kernel driver, PCI, device node."""
    return bool(
        host.nvml_library
        or host.path("/proc/driver/nvidia/version").exists()
        or any(f.vendor == NVIDIA and f.kind >> 8 == _DISPLAY for f in functions(host))
        or device_minors(host)
    )


def on_bus(host: Host, bdf: str) -> bool | None:
    """Whether the device answers on the bus; None where the bus cannot be read at all."""
    if not functions(host):
        return None
    return host.path(f"{DEVICES}/{bdf}").exists() and not _dead(host, bdf)


def device_minors(host: Host) -> tuple[int, ...]:
    """Minors of the device nodes /dev/nvidia<minor>."""
    names = [p.name.removeprefix("nvidia") for p in host.glob("/dev/nvidia[0-9]*")]
    return tuple(sorted(int(n) for n in names if n.isdecimal()))


def _dead(host: Host, bdf: str) -> bool:
    try:
        header = host.read_bytes(f"{DEVICES}/{bdf}/config", _HEADER)
    except OSError:
        return False
    return len(header) > 1 and set(header) == {0xFF}
