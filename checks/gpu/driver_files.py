"""What the loaded NVIDIA driver says of itself under /proc/driver/nvidia, read without a call into it."""

from __future__ import annotations

from dataclasses import dataclass

from checks.gpu.values import normal_bdf
from checks.host import Host

HOME = "/proc/driver/nvidia"
LARGE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Information:
    """One GPU in the driver's own words, from the file ``information`` in its folder.

    ``firmware`` is what runs on the GPU's system processor (GSP), empty where none does.
    """

    bdf: str
    uuid: str = ""
    model: str = ""
    vbios: str = ""
    firmware: str = ""
    minor: int | None = None
    excluded: bool = False


def information(host: Host) -> tuple[Information, ...]:
    """Every GPU that the driver has taken, in the order of its PCI id; a file that cannot be read is left out."""
    found = []
    for path in host.glob(f"{HOME}/gpus/*/information"):
        try:
            told = pairs(host.read_bytes(path, LARGE).decode("utf-8", "replace"))
        except OSError:
            continue
        if bdf := normal_bdf(told.get("bus location", "")) or normal_bdf(path.parent.name):
            found.append(_one(bdf, told))
    return tuple(sorted(found, key=lambda one: one.bdf))


def _one(bdf: str, told: dict[str, str]) -> Information:
    firmware = told.get("gpu firmware", "")
    minor = told.get("device minor", "")
    return Information(
        bdf,
        uuid=_known(told.get("gpu uuid", "")),
        model=_known(told.get("model", "")),
        vbios=_known(told.get("video bios", "")),
        firmware="" if firmware.lower() in ("n/a", "") else firmware,
        minor=int(minor) if minor.isascii() and minor.isdecimal() and len(minor) < 8 else None,
        excluded=told.get("gpu excluded", "").lower() == "yes",
    )


def _known(text: str) -> str:
    """Nothing in place of the question marks that the driver shows of a GPU that nobody has opened yet."""
    return "" if "?" in text or text.lower() in ("n/a", "unknown") else text


def pairs(text: str) -> dict[str, str]:
    """The lines ``Name: value`` of one of the driver's files, the names in lower case."""
    parts = (line.partition(":") for line in text.splitlines())
    return {name.strip().lower(): value.strip() for name, colon, value in parts if colon}


def settings(host: Host, path: str = f"{HOME}/params") -> dict[str, str]:
    """The driver's settings in force, or those of one capability; nothing where they cannot be read."""
    try:
        return pairs(host.read_bytes(path, LARGE).decode("utf-8", "replace"))
    except OSError:
        return {}


def is_open(host: Host) -> bool:
    """Whether the open kernel modules are loaded, which can do what the others cannot, such as dma-buf."""
    try:
        return "Open Kernel Module" in host.read(f"{HOME}/version")
    except OSError:
        return False


def module_version(host: Host) -> str:
    """Version of the loaded kernel module, empty when there is none: the word after "Kernel Module"."""
    try:
        first = host.read(f"{HOME}/version").splitlines()[0]
    except (OSError, IndexError):
        return ""
    return next((w for w in first.split() if w[0].isdecimal() and "." in w), "")
