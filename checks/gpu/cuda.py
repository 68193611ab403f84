"""A new program gets CUDA on this node: cuInit succeeds and sees the GPUs."""

from __future__ import annotations

import os
from collections.abc import Iterator

from checks.declare import Skip, check, code, ok
from checks.gpu import cuda_child
from checks.gpu.driver_files import HOME
from checks.gpu.owners import jobs_here
from checks.gpu.pci import has_nvidia
from checks.host import Host
from checks.wire import Finding

NOT_READY = code(
    "gpu_cuda_not_ready",
    "fail",
    "node",
    "cuInit gives error 802 (system not yet initialized)",
    explain="The GPUs of an NVSwitch board are not registered with the fabric: NVML and nvidia-smi look well and every "
    "CUDA program ends with error 802. Confirm: `systemctl status nvidia-fabricmanager`, `nvidia-smi -q -i 0 | "
    "grep -A 3 Fabric`. Do: start the fabric manager, its version that of the driver; if it stays, reset all GPUs.",
)
MISMATCH = code(
    "gpu_cuda_mismatch",
    "fail",
    "node",
    "cuInit gives error {error} ({word})",
    explain="The CUDA library does not belong to the loaded kernel module: no new program starts. Confirm: "
    "`cat /proc/driver/nvidia/version`, `ls -l /usr/lib*/libcuda.so.1 /usr/lib/*/libcuda.so.1`. Do: when idle, reboot.",
)
FAILED = code(
    "gpu_cuda_failed",
    "warn",
    "node",
    "cuInit gives error {error} ({word})",
    explain="CUDA does not start for root outside of any job; it may be the node, its settings (MIG without instances, "
    "device files) or the library. Confirm: `python3 -c \"import ctypes; print(ctypes.CDLL('libcuda.so.1')"
    '.cuInit(0))"` gives 0 on a good node, `dmesg | grep -i nvrm`. Do: see gpu_health, gpu_device_files, gpu_mig.',
)
FEWER = code(
    "gpu_cuda_fewer",
    "warn",
    "node",
    "CUDA sees {found} of {expected} GPUs",
    explain='Programs that use all GPUs of the node end at once. Confirm: the second number of `python3 -c "import '
    "ctypes as c; l = c.CDLL('libcuda.so.1'); n = c.c_int(); print(l.cuInit(0), l.cuDeviceGetCount(c.byref(n)), "
    'n.value)"`. Do: see gpu_health; a GPU that waits for a reset is not counted.',
)
LIBRARY = code(
    "gpu_cuda_library",
    "warn",
    "config",
    "libcuda.so.1 does not load: {error}",
    explain="Programs on the node itself find no CUDA; containers bring the host's library along and fail as well. "
    "Confirm: `ldconfig -p | grep libcuda`. Do: install the driver's compute libraries.",
)
ENDED = code(
    "gpu_cuda_unanswered",
    "unknown",
    "node",
    "cuInit gave no answer: {how}",
    explain="The worker that called it ended by itself or was ended after its time. Once says nothing. "
    "Confirm: `time nvidia-smi`; persistence mode off makes the first call slow. "
    "Do: switch persistence mode on; if it stays, read the kernel's log for the driver.",
)

WORDS = {
    2: "out of memory", 3: "not initialized", 34: "stub library", 36: "device unavailable", 46: "device unavailable",
    100: "no device", 101: "invalid device", 214: "uncorrectable ECC error", 304: "operating system call failed",
    800: "not permitted", 801: "not supported", 802: "system not yet initialized", 803: "system driver mismatch",
    804: "compatibility not supported on device", 999: "unknown error",
}  # fmt: skip
_SYSTEM_NOT_READY, _NO_DEVICE = 802, 100
_MISMATCHED = (803,)


@check(
    lane="gpu",
    cost="active",
    interval=1800,
    timeout=90.0,
    codes=(NOT_READY, MISMATCH, FAILED, FEWER, LIBRARY, ENDED),
)
def gpu_cuda(
    host: Host, *, expected: int = 0, patience: float = 60.0, beside_jobs: bool = False, grace: float = 600.0
) -> Iterator[Finding]:
    """cuInit and the number of devices, asked by a process of its own that then ends: no context is made or kept.

    Asked while no job is here (unless ``beside_jobs``), and not in the first ``grace`` seconds after boot, when the
    fabric may still be trained. ``expected`` GPUs; with MIG CUDA shows one instance only, so they are not counted. A
    process that is not done after ``patience`` seconds is asked to end, never killed; one that cannot end sits in the
    driver, and its worker is then judged as ``gpu_driver_hung``. MPS is bypassed. Confirm by hand: any CUDA program.
    """
    if not has_nvidia(host):
        raise Skip("no NVIDIA GPU in this node")
    library = _library(host)
    if (age := host.uptime()) is not None and age < grace:
        raise Skip(f"node booted {age:.0f} s ago, the fabric may be trained until {grace:g} s")
    if not beside_jobs and jobs_here(host):
        raise Skip("a job is here; asked when none is")
    told = cuda_child.ask(library, patience)
    if isinstance(told, str):
        yield ENDED("node", how=told)
    elif isinstance(told, cuda_child.NotLoaded):
        yield LIBRARY("node", error=told.why)
    elif told.error:
        yield _judge(told.error)
    elif told.count < expected and not _parts(host):
        yield FEWER("node", found=told.count, expected=expected)
    else:
        yield ok("node", f"CUDA sees {told.count} GPUs in {told.seconds:.2f} s", count=told.count, seconds=told.seconds)


def _library(host: Host) -> str:
    """What to load: the driver's, or the one that stands beside a given NVML."""
    if host.nvml_library is None:
        if host.redirected:
            raise Skip("CUDA can only be asked on the node itself")
        return cuda_child.SONAME
    beside = host.nvml_library.with_name(cuda_child.SONAME)
    if not os.path.exists(beside):
        raise Skip(f"no {cuda_child.SONAME} beside the given NVML")
    return str(beside)


def _judge(error: int) -> Finding:
    word = WORDS.get(error, "see the CUDA driver's list of results")
    if error == _SYSTEM_NOT_READY:
        return NOT_READY("node", error=error)
    return (MISMATCH if error in _MISMATCHED else FAILED)("node", error=error, word=word)


def _parts(host: Host) -> bool:
    """Whether a GPU is divided (MIG)."""
    return bool(host.glob(f"{HOME}/capabilities/gpu*/mig/gi*"))
