"""Faults of the NVIDIA driver's surroundings: CUDA, device files, modules and firmware."""

from __future__ import annotations

from deploy.simcluster.faults import Effects, Site, fault
from deploy.simcluster.tree import proc
from deploy.simcluster.tree.board import DRIVER


@fault
def cuda_fails(site: Site, *, error: int = 802) -> Effects:
    """CUDA does not start although NVML looks well: cuInit gives this error, 802 until the fabric is set up."""
    return Effects(nvml={"call.cuInit.error": error})


@fault
def cuda_hangs(site: Site, *, uninterruptible: int = 0) -> Effects:
    """cuInit does not return while NVML goes on answering."""
    return Effects(nvml={"call.cuInit.hang": 1, "hang.uninterruptible": uninterruptible})


@fault
def device_file_replaced(site: Site, *, name: str = "nvidia0") -> Effects:
    """A regular file stands where a device file of the driver should: somebody wrote to the path."""
    if "/" in name or not name.startswith("nvidia"):
        raise ValueError(f"device file is {name!r}, one of nvidia0, nvidiactl, nvidia-uvm, ...")
    return Effects(files={f"dev/{name}": "not a device\n"})


@fault
def peermem_unloaded(site: Site) -> Effects:
    """The proprietary kernel modules are loaded and nvidia_peermem is not: no GPUDirect RDMA."""
    return Effects(
        files={
            **proc.modules({"nvidia_peermem"}),
            "proc/driver/nvidia/version": proc.kernel_module(DRIVER, open_=False),
        }
    )


@fault
def mig_divided(site: Site, *, gpu: int = 0, instances: str = "1g.10gb,1g.10gb", pending: int = 1) -> Effects:
    """Somebody switched MIG on and made instances, or none; ``pending`` 0: and off again, before a reset."""
    place = f"gpu.{gpu}.mig"
    return Effects(nvml={f"{place}.current": 1, f"{place}.pending": pending, f"{place}.instances": instances or "-"})


@fault
def firmware_old(site: Site, *, gpu: int = 0, vbios: str = "96.00.74.00.01") -> Effects:
    """A GPU has another VBIOS than the others."""
    return Effects(nvml={f"gpu.{gpu}.vbios": vbios})
