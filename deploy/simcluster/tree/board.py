"""What is plugged in where: an HGX H100 board with eight GPUs, four NVSwitches and eight NDR adapters."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from deploy.simcluster.tree.makers import MAKERS, Maker

NAMESPACE = uuid.UUID("6f1f0c1e-51a0-4000-8000-000000000000")
DRIVER = "580.95.05"
UPTIME = 3 * 86400 + 4242
"""Seconds a freshly made node claims to have been up."""


@dataclass(frozen=True, slots=True)
class Board:
    """One kind of node; addresses are PCI bus numbers, all in domain 0000, device 00, function 0.

    ``minors`` gives the device minor of each GPU in NVML order: on real boards, too, the two orders differ.
    ``network`` is the kind of its adapters. ``beside``: what stands beside them and is nobody's rail: a virtual
    function, a software adapter, a spare second port, an Ethernet adapter for administrators, and a bond.
    """

    gpus: tuple[int, ...] = (0x19, 0x3B, 0x4C, 0x5D, 0x9B, 0xBB, 0xCB, 0xDB)
    minors: tuple[int, ...] = (3, 1, 0, 2, 7, 5, 4, 6)
    switches: tuple[int, ...] = (0x05, 0x06, 0x07, 0x08)
    hcas: tuple[int, ...] = (0x1A, 0x3C, 0x4D, 0x5E, 0x9C, 0xBC, 0xCC, 0xDC)
    management: int = 0x81
    cpus: int = 224
    memory_kib: int = 2_113_482_752
    modules: int = 32
    module_gib: int = 64
    network: str = "infiniband"
    beside: bool = False

    def numa(self, bus: int) -> int:
        """Return the socket a PCI bus hangs from."""
        return 1 if bus >= 0x80 else 0

    def gpu_bdf(self, gpu: int) -> str:
        """Return the PCI address of a GPU by its NVML index."""
        return bdf(self.gpus[gpu])

    @property
    def maker(self) -> Maker:
        """The kind of its adapters."""
        return MAKERS[self.network]

    def hca(self, name: str = "") -> str:
        """Return the adapter of that name, the first where none is named; ValueError where there is no such."""
        names = [self.maker.name(index) for index in range(len(self.hcas))]
        return names[names.index(name) if name else 0]

    def hca_index(self, name: str) -> int:
        """Return which of the adapters one is."""
        return [self.maker.name(index) for index in range(len(self.hcas))].index(name)

    def hca_bdf(self, hca: str) -> str:
        """Return the PCI address of an adapter."""
        return bdf(self.hcas[self.hca_index(hca)])


PROFILES = {
    "hgx-h100": Board(),
    "hgx-h100-beside": Board(beside=True),
    **{f"hgx-h100-{network}": Board(network=network) for network in MAKERS if network != "infiniband"},
}


def bdf(bus: int) -> str:
    """Return the PCI address of device 0 on a bus."""
    return f"0000:{bus:02x}:00.0"


@dataclass(frozen=True, slots=True)
class Identity:
    """What makes one simulated node itself; ``boot_id`` and ``btime`` (Unix seconds) change at each boot."""

    name: str
    boot_id: str
    btime: int

    def gpu_uuid(self, gpu: int) -> str:
        """Return the UUID of a GPU, the same after every restart."""
        return f"GPU-{uuid.uuid5(NAMESPACE, f'{self.name}/gpu{gpu}')}"

    def serial(self, gpu: int) -> str:
        """Return the serial number of a GPU; SIM tells everybody that there is no such board."""
        return f"SIM{uuid.uuid5(NAMESPACE, self.name).int % 10**7:07d}{gpu:03d}"

    def guid(self, hca: int) -> str:
        """Return the node GUID of an adapter as sysfs writes it."""
        digits = uuid.uuid5(NAMESPACE, f"{self.name}/hca{hca}").hex[:16]
        return ":".join(digits[at : at + 4] for at in range(0, 16, 4))

    def address(self, interface: str) -> str:
        """Return the hardware address of an interface, which no other node has."""
        digits = uuid.uuid5(NAMESPACE, f"{self.name}/{interface}").hex[:8]
        return ":".join(("00", "51", *(digits[at : at + 2] for at in range(0, 8, 2))))

    @property
    def machine_id(self) -> str:
        """The 32 digits of /etc/machine-id."""
        return uuid.uuid5(NAMESPACE, f"{self.name}/machine").hex
