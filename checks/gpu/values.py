"""What NVML says of a GPU, as values that outlive the library."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Fault(Enum):
    """How NVML can fail to answer; the value is its return code."""

    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    INSUFFICIENT_POWER = 8
    DRIVER_NOT_LOADED = 9
    TIMEOUT = 10
    IRQ_ISSUE = 11
    LIBRARY_NOT_FOUND = 12
    CORRUPTED_INFOROM = 14
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    DRIVER_MISMATCH = 18
    IN_USE = 19
    OTHER = 998
    UNKNOWN = 999

    def __str__(self) -> str:
        return "an error unknown to us" if self is Fault.OTHER else self.name.lower().replace("_", " ")

    @classmethod
    def of(cls, number: int) -> Fault:
        """The fault of an NVML return code; one that we do not know is OTHER."""
        if number in (13, 22, 25, 26):
            return cls.NOT_SUPPORTED
        try:
            return cls(number)
        except ValueError:
            return cls.OTHER


class NvmlError(Exception):
    """NVML did not answer a question."""

    def __init__(self, fault: Fault, text: str = "") -> None:
        super().__init__(text or str(fault))
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as NVML lists it; fields that did not answer are empty and ``fault`` says how it failed.

    ``index`` is NVML's own order, ``minor`` the number in /dev/nvidia<minor>, ``bdf`` the PCI id ``0000:5d:00.0``.
    """

    index: int
    uuid: str = ""
    bdf: str = ""
    minor: int | None = None
    serial: str = ""
    name: str = ""
    fault: Fault | None = None

    @property
    def target(self) -> str:
        """How findings name this GPU: by PCI id, which a lost one keeps."""
        return self.bdf or f"gpu{self.index}"


@dataclass(frozen=True, slots=True)
class Ecc:
    """Uncorrected memory errors since the driver was loaded and over the GPU's life."""

    volatile_uncorrected: int = 0
    aggregate_uncorrected: int = 0
    sram_threshold_exceeded: bool | None = None


@dataclass(frozen=True, slots=True)
class Remap:
    """Row remapping: how many rows, whether one waits for a reset, whether one failed."""

    correctable: int
    uncorrectable: int
    pending: bool
    failed: bool


@dataclass(frozen=True, slots=True)
class Fabric:
    """Fabric registration: ``state`` 0 not supported, 1 not started, 2 in progress, 3 completed; ``status`` 0 = well.

    ``health`` is NVML's bit field, 0 where the driver gives none.
    """

    state: int
    status: int = 0
    clique: int = 0
    cluster: str = ""
    health: int = 0


@dataclass(frozen=True, slots=True)
class Temperature:
    """Degrees Celsius now and where the device itself slows down."""

    celsius: int
    slowdown: int


def normal_bdf(text: str) -> str:
    """The kernel's spelling of a PCI id, ``0000:5d:00.0``; NVML pads the domain to eight digits.

    Kernel log lines leave the function out; it is 0 then. Text that is no PCI id comes back empty.
    """
    parts = text.strip().lower().removeprefix("pci:").split(":")
    if len(parts) == 2:
        parts = ["0", *parts]
    if len(parts) != 3:
        return ""
    device, _, function = parts[2].partition(".")
    try:
        numbers = [int(n, 16) for n in (parts[0], parts[1], device, function or "0")]
    except ValueError:
        return ""
    if min(numbers) < 0 or numbers[1] > 0xFF or numbers[2] > 0x1F or numbers[3] > 7:
        return ""
    return f"{numbers[0]:04x}:{numbers[1]:02x}:{numbers[2]:02x}.{numbers[3]:x}"
