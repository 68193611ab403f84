"""PCI devices as /sys/bus/pci/devices shows them, configuration space included."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from deploy.simcluster.tree.board import Board, bdf

LOST_CONFIG = b"\xff" * 256
"""What a device that no longer answers on the bus reads as."""

_AER = "RxErr 0\nBadTLP 0\nBadDLLP 0\nRollover 0\nTimeout 0\nNonFatalErr 0\nTOTAL_ERR_COR 0\n"
_AER_FATAL = "Undefined 0\nDLP 0\nSDES 0\nTLP 0\nFCP 0\nCmpltTO 0\nMalfTLP 0\nTOTAL_ERR_FATAL 0\n"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of PCI function; speed in GT/s."""

    vendor: int
    device: int
    subsystem: tuple[int, int]
    pci_class: int
    driver: str
    speed: float
    width: int


GPU = Kind(0x10DE, 0x2330, (0x10DE, 0x16C1), 0x030200, "nvidia", 32.0, 16)
SWITCH = Kind(0x10DE, 0x22A3, (0x10DE, 0x1796), 0x068000, "nvidia-nvswitch", 5.0, 2)
MANAGEMENT = Kind(0x8086, 0x1572, (0x8086, 0x0000), 0x020000, "i40e", 8.0, 8)

_GENERATION = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5}


def devices(board: Board) -> dict[int, Kind]:
    """Return every device of the board by its bus number."""
    adapter = Kind(*board.maker.function)
    found = dict.fromkeys(board.gpus, GPU) | dict.fromkeys(board.switches, SWITCH)
    return {**found, **dict.fromkeys(board.hcas, adapter), board.management: MANAGEMENT}


def drivers(board: Board) -> set[str]:
    """Return the names of all kernel drivers of the board's devices."""
    return {kind.driver for kind in devices(board).values()}


def config_space(kind: Kind) -> bytes:
    """Return the first 256 bytes: the standard header, then a power and a PCI Express capability."""
    space = bytearray(256)
    struct.pack_into("<HHHH", space, 0x00, kind.vendor, kind.device, 0x0546, 0x0010)
    struct.pack_into("<B", space, 0x08, 0xA1)
    space[0x09:0x0C] = kind.pci_class.to_bytes(3, "little")
    struct.pack_into("<HH", space, 0x2C, *kind.subsystem)
    space[0x34] = 0x60
    struct.pack_into("<BB", space, 0x60, 0x01, 0x78)
    struct.pack_into("<BBH", space, 0x78, 0x10, 0x00, 0x0002)
    link = _GENERATION[kind.speed] | kind.width << 4
    struct.pack_into("<I", space, 0x78 + 0x0C, link)
    struct.pack_into("<H", space, 0x78 + 0x12, link)
    return bytes(space)


def files(board: Board) -> dict[str, str | bytes]:
    """Return the attribute files of all devices."""
    tree: dict[str, str | bytes] = {}
    half = board.cpus // 2
    for bus, kind in devices(board).items():
        home = f"sys/bus/pci/devices/{bdf(bus)}"
        numa = board.numa(bus)
        attributes = {
            "vendor": f"0x{kind.vendor:04x}",
            "device": f"0x{kind.device:04x}",
            "subsystem_vendor": f"0x{kind.subsystem[0]:04x}",
            "subsystem_device": f"0x{kind.subsystem[1]:04x}",
            "class": f"0x{kind.pci_class:06x}",
            "revision": "0xa1",
            "numa_node": str(numa),
            "local_cpulist": f"{numa * half}-{numa * half + half - 1}",
            "current_link_speed": f"{kind.speed:.1f} GT/s PCIe",
            "current_link_width": str(kind.width),
            "max_link_speed": f"{kind.speed:.1f} GT/s PCIe",
            "max_link_width": str(kind.width),
            "enable": "1",
            "irq": str(32 + bus),
            "power_state": "D0",
            "uevent": f"DRIVER={kind.driver}\nPCI_SLOT_NAME={bdf(bus)}",
        }
        tree.update({f"{home}/{name}": f"{value}\n" for name, value in attributes.items()})
        tree[f"{home}/config"] = config_space(kind)
        tree[f"{home}/aer_dev_correctable"] = _AER
        tree[f"{home}/aer_dev_fatal"] = _AER_FATAL
        tree[f"{home}/aer_dev_nonfatal"] = _AER_FATAL.replace("FATAL", "NONFATAL")
    return tree


def links(board: Board) -> dict[str, str]:
    """Return the driver links, relative as sysfs has them."""
    return {
        f"sys/bus/pci/devices/{bdf(bus)}/driver": f"../../../../bus/pci/drivers/{kind.driver}"
        for bus, kind in devices(board).items()
    }


def lost(address: str) -> dict[str, str | bytes]:
    """Return what changes in the tree when the device at ``address`` no longer answers on the bus.

    Vendor, device and class stay: the kernel read them once and shows what it remembers.
    """
    home = f"sys/bus/pci/devices/{address}"
    return {
        f"{home}/config": LOST_CONFIG,
        f"{home}/current_link_speed": "Unknown\n",
        f"{home}/current_link_width": "63\n",
    }
