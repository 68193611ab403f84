"""Network adapters can reach the memory of the GPUs by themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator

from checks.declare import Skip, check, code
from checks.gpu.driver_files import HOME, is_open
from checks.gpu.pci import has_nvidia
from checks.host import Host
from checks.wire import Finding

ABSENT = code(
    "gpu_peermem_absent",
    "warn",
    "config",
    "neither module nvidia_peermem nor dma-buf is there: {why}",
    explain="Transfers between nodes go through the memory of the host and are several times slower; nothing fails. "
    "Confirm: `lsmod | grep peer`, NCCL_DEBUG=INFO says GPU Direct RDMA Disabled. Do: `modprobe nvidia_peermem` and "
    "name it in /etc/modules-load.d (it needs the RDMA core to be loaded before the NVIDIA driver), or load the open "
    "kernel modules on a kernel from 5.12 on.",
)
NO_GDRCOPY = code(
    "gpu_gdrcopy_absent",
    "warn",
    "config",
    "gdrcopy is expected and {missing} is missing",
    explain="Small messages of UCX and NVSHMEM are slower. Confirm: `lsmod | grep gdrdrv`, `ls -l /dev/gdrdrv`. "
    "Do: `modprobe gdrdrv`; see whether DKMS built it for this kernel.",
)

MODULES = ("nvidia_peermem", "nv_peer_mem")
"""The driver's own, and its forerunner from the makers of the adapter."""
_DMA_BUF = (5, 12)


@check(lane="system", interval=600, timeout=2.0, codes=(ABSENT, NO_GDRCOPY), only_with=("expected", "gdrcopy"))
def gpu_peermem(host: Host, *, expected: bool = False, gdrcopy: bool = False) -> Iterator[Finding]:
    """A module or dma-buf for GPUDirect RDMA where the profile says ``expected``, and GDRCopy with ``gdrcopy``.

    dma-buf needs the open kernel modules and Linux 5.12, and then no module. Others ask for the module alone or, as
    gpud does, take no notice of a missing one; since only speed is at stake this is a warning.
    Confirm by hand: ``lsmod | grep -e nvidia_peermem -e nv_peer_mem``.
    """
    if not expected and not gdrcopy:
        raise Skip("GPUDirect RDMA is not asked for")
    if not has_nvidia(host) or not host.path(f"{HOME}/version").exists():
        raise Skip("no NVIDIA driver is loaded, see gpu_driver")
    loaded = _loaded(host)
    if expected and not loaded & set(MODULES) and (why := _no_dma_buf(host)):
        yield ABSENT("node", why=why)
    if gdrcopy:
        missing = "module gdrdrv" if "gdrdrv" not in loaded else ""
        if not missing and host.path("/dev").is_dir() and not host.path("/dev/gdrdrv").exists():
            missing = "/dev/gdrdrv"
        if missing:
            yield NO_GDRCOPY("node", missing=missing)


def _loaded(host: Host) -> set[str]:
    return {line.split()[0] for line in host.read("/proc/modules").splitlines() if line.strip()}


def _no_dma_buf(host: Host) -> str:
    """Why dma-buf cannot serve, empty when it can."""
    if not is_open(host):
        return "the proprietary kernel modules are loaded"
    release = host.read("/proc/sys/kernel/osrelease").strip()
    found = re.match(r"(\d{1,3})\.(\d{1,4})", release)
    if found is not None and (int(found[1]), int(found[2])) < _DMA_BUF:
        return f"kernel {release} is older than {_DMA_BUF[0]}.{_DMA_BUF[1]}"
    return ""
