"""The NVIDIA driver is loaded, matches its library and answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

from checks.declare import Skip, check, code
from checks.gpu.driver_files import module_version
from checks.gpu.libraries import CUDA, LIBRARIES, NEEDED, NVML, broken_library, missing_library
from checks.gpu.pci import has_nvidia, pci_gpus
from checks.gpu.values import Fault, NvmlError
from checks.host import Host
from checks.wire import Finding

MISMATCH = code(
    "gpu_driver_mismatch",
    "fail",
    "node",
    "driver library {library} does not match the loaded kernel module {module}",
    explain="A new driver was installed under a running kernel module: running jobs go on, new ones cannot start. "
    "Confirm: `nvidia-smi` says version mismatch; compare /proc/driver/nvidia/version with the installed package. "
    "Do: let jobs end, reboot.",
)
NOT_LOADED = code(
    "gpu_driver_not_loaded",
    "fail",
    "node",
    "kernel driver is not loaded, {expected} GPUs expected{held}",
    explain="Confirm: `lsmod | grep nvidia`, `lspci -k -d 10de:`, `dmesg | grep -i nvrm`. Do: load or install the "
    "driver; take the GPUs from a driver that holds them instead (nouveau, vfio-pci).",
)
LIBRARY = code(
    "gpu_driver_library",
    "fail",
    "node",
    "{error}",
    explain="The kernel driver is loaded and its library is missing, empty or does not load. "
    "Confirm: `ls -lL /usr/lib*/libnvidia-ml.so.1 /usr/lib/*/libnvidia-ml.so.1`. Do: reinstall the driver package.",
)
UNANSWERED = code(
    "gpu_driver_unanswered",
    "unknown",
    "node",
    "driver gives an error: {error}",
    explain="NVML does not open and says no more. Confirm: `nvidia-smi`, `dmesg | grep -i nvrm`."
    " Do: if it stays, drain the node by hand and reload the driver or reboot.",
)
NO_PERMISSION = code(
    "gpu_driver_no_permission",
    "unknown",
    "self",
    "driver refuses us: {error}",
    explain="Confirm: `ls -l /dev/nvidia*`. Do: let the agent run as root, as its unit does.",
)
VERSION = code(
    "gpu_driver_version",
    "warn",
    "config",
    "driver {driver}, expected {version}",
    explain="The node runs another driver than its profile says. Do: bring it to the fleet's version when idle.",
)

NO_LIBRARY = code(
    "gpu_driver_library_missing",
    "warn",
    "config",
    "driver library {library} is installed nowhere, NVML's is",
    explain="A part of the driver's packages is missing: nvidia-smi works and programs find no CUDA. "
    "Confirm: `ldconfig -p | grep libcuda`. Do: install the driver's compute libraries of the same version.",
)


@check(
    lane="nvml",
    interval=60,
    timeout=5.0,
    required=True,
    codes=(MISMATCH, NOT_LOADED, LIBRARY, UNANSWERED, NO_PERMISSION, VERSION, NO_LIBRARY),
)
def gpu_driver(host: Host, *, expected: int = 0, version: str = "") -> Iterator[Finding]:
    """Driver and library open together; ``expected`` GPUs make a missing driver a fault, 0 leaves it alone. ``version``
    is a whole one or a branch ("580").

    The library we hold open goes on working after an upgrade, so the installed one is compared with the module too.
    Confirm by hand: ``nvidia-smi``, ``cat /proc/driver/nvidia/version``. A driver that never answers is judged by
    the lane, as ``gpu_driver_hung``. ``version``: the one that the site wants, if any.
    """
    if not expected and not has_nvidia(host):
        raise Skip("no NVIDIA GPU in this node")
    try:
        driver = host.nvml().driver()
    except NvmlError as error:
        yield _judge(host, error, expected)
        return
    broken = broken_library(host, _needed(host))
    if broken:
        yield LIBRARY("node", error=broken)
        return
    module = module_version(host)
    library = next((v for v in (driver, _installed(host, module)) if module and v and v != module), "")
    if library:
        yield MISMATCH("node", module=module, library=library)
    elif version and not f"{driver}.".startswith(f"{version}."):
        yield VERSION("node", driver=driver, version=version)
    if missing := missing_library(host, (CUDA,)):
        yield NO_LIBRARY("node", library=missing)


def _judge(host: Host, error: NvmlError, expected: int) -> Finding:
    """What an NVML that does not open means; without a loaded module and an expectation it means nothing."""
    module = module_version(host)
    fault = error.fault
    if fault is Fault.DRIVER_MISMATCH:
        return MISMATCH("node", module=module or "unknown", library=_installed(host, module) or "unknown")
    if fault is Fault.LIBRARY_NOT_FOUND and (_loaded(host) or expected):
        return LIBRARY("node", error=str(error), module=module)
    if fault is Fault.DRIVER_NOT_LOADED and expected:
        return NOT_LOADED("node", expected=expected, held=_held(host))
    if fault in (Fault.LIBRARY_NOT_FOUND, Fault.DRIVER_NOT_LOADED):
        raise Skip("a GPU is present, its driver is not installed and the profile expects none")
    if fault is Fault.NO_PERMISSION:
        return NO_PERMISSION("node", error=str(error))
    return UNANSWERED("node", error=str(error))


def _held(host: Host) -> str:
    """Which other drivers hold the GPUs."""
    others = Counter(d.driver for d in pci_gpus(host) if not d.ours)
    return "".join(f", {count} bound to {name}" for name, count in sorted(others.items()))


def _loaded(host: Host) -> bool:
    return host.path("/proc/driver/nvidia/version").exists()


def _needed(host: Host) -> tuple[str, ...]:
    """The libraries that a new program loads; NVML's among them where its file, no mere link, lies beside ours."""
    there = any(host.path(f"{folder}/{NVML}").exists() for folder in _folders(host) if folder in LIBRARIES)
    return (NVML, *NEEDED) if there else NEEDED


def _folders(host: Host) -> tuple[str, ...]:
    """Where to look for the library: beside the one that this process has loaded, a stale one elsewhere is no sign."""
    if host.redirected:
        return LIBRARIES
    lines = host.read("/proc/self/maps").splitlines()
    paths = {
        words[5] for words in (line.split() for line in lines) if len(words) > 5 and "/libnvidia-ml.so." in words[5]
    }
    return tuple(sorted(path.rpartition("/")[0] for path in paths))


def _installed(host: Host, module: str) -> str:
    """Version of the library that a new program would load, by the name its link points to; empty when not told.

    Where several are installed and one of them fits the module, that one is meant.
    """
    found = []
    for folder in _folders(host):
        with suppress(OSError):
            found.append(host.link(f"{folder}/libnvidia-ml.so.1").rpartition("/")[2].partition(".so.")[2])
    versions = [v for v in found if v[:1].isdecimal() and "." in v]
    return module if module in versions else next(iter(versions), "")
