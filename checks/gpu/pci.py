"""What the PCI bus says of NVIDIA devices, read without the driver."""

from __future__ import annotations

from dataclasses import dataclass

from checks.host import Host

NVIDIA = "0x10de"
_HEADER = 64


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One PCI function; ``dead`` when its configuration space answers with all ones, ``lspci`` then says rev ff.

    ``driver`` is the kernel driver bound to it, empty when none is.
    """

    bdf: str
    kind: int
    dead: bool
    driver: str = ""


def pci_gpus(host: Host) -> tuple[PciDevice, ...]:
    """NVIDIA functions of class 03xx (display, 3D controller), virtual functions left out."""
    return tuple(d for d in _devices(host) if d.kind >> 8 == 0x03)


def pci_switches(host: Host) -> tuple[PciDevice, ...]:
    """NVSwitches: NVIDIA functions of class 0680 (other bridge)."""
    return tuple(d for d in _devices(host) if d.kind == 0x0680)


def has_nvidia(host: Host) -> bool:
    """Whether anything at all speaks of an NVIDIA GPU here: PCI, kernel driver, device node or a given library."""
    return bool(
        host.nvml_library or pci_gpus(host) or host.path("/proc/driver/nvidia/version").exists() or device_minors(host)
    )


def on_bus(host: Host, bdf: str) -> bool | None:
    """Whether the device answers on the bus; None where the bus cannot be read at all."""
    if not host.glob("/sys/bus/pci/devices/*"):
        return None
    return host.path(f"/sys/bus/pci/devices/{bdf}").exists() and not _dead(host, bdf)


def device_minors(host: Host) -> tuple[int, ...]:
    """Minors of the device nodes /dev/nvidia<minor>."""
    names = [p.name.removeprefix("nvidia") for p in host.glob("/dev/nvidia[0-9]*")]
    return tuple(sorted(int(n) for n in names if n.isdigit()))


def _devices(host: Host) -> list[PciDevice]:
    found = []
    for path in host.glob("/sys/bus/pci/devices/*"):
        try:
            if host.read(path / "vendor").strip() != NVIDIA or (path / "physfn").exists():
                continue
            kind = int(host.read(path / "class").strip(), 16) >> 8
        except (OSError, ValueError):
            continue
        link = path / "driver"
        driver = link.readlink().name if link.is_symlink() else ""
        found.append(PciDevice(path.name.lower(), kind, _dead(host, path.name), driver))
    return found


def _dead(host: Host, name: str) -> bool:
    try:
        header = host.read_bytes(f"/sys/bus/pci/devices/{name}/config", _HEADER)
    except OSError:
        return False
    return len(header) > 1 and set(header) == {0xFF}
