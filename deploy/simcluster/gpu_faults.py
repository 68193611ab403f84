"""Faults of one GPU that leave it working: settings, heat, clocks, links, wear and what is left in its memory."""

from __future__ import annotations

from deploy.simcluster.faults import Effects, Site, fault

BITS = {"sw_thermal": 0x20, "thermal": 0x48, "brake": 0x88, "hardware": 0x8, "power_cap": 0x4}


@fault
def gpu_slowed(site: Site, *, gpu: int = 0, cause: str = "brake") -> Effects:
    """Something holds a GPU's clocks down: thermal, brake, sw_thermal, hardware, or power_cap, which is normal."""
    return Effects(nvml={f"gpu.{gpu}.clocks.event_reasons": BITS[cause], f"gpu.{gpu}.utilization.gpu": 99})


@fault
def gpu_power_limited(site: Site, *, gpu: int = 0, watts: int = 400) -> Effects:
    """Somebody lowered the power limit of a GPU."""
    return Effects(nvml={f"gpu.{gpu}.power.limit": watts * 1000})


@fault
def gpu_power_unreadable(site: Site, *, gpu: int = 0) -> Effects:
    """The power sensor of a GPU reads nothing."""
    return Effects(nvml={f"gpu.{gpu}.power": 0})


@fault
def gpu_compute_prohibited(site: Site, *, gpu: int = 0) -> Effects:
    """Somebody set a GPU's compute mode so that no program may use it."""
    return Effects(nvml={f"gpu.{gpu}.compute_mode": 2})


@fault
def gpu_memory_hot(site: Site, *, gpu: int = 0, celsius: int = 97) -> Effects:
    """The memory of a GPU is hotter than its limit, the GPU itself is not."""
    return Effects(nvml={f"gpu.{gpu}.temperature.memory": celsius})


@fault
def gpu_ecc_off(site: Site, *, gpu: int = 0) -> Effects:
    """Somebody switched a GPU's error correction off, and a reset has made it so."""
    return Effects(nvml={f"gpu.{gpu}.ecc.current": 0, f"gpu.{gpu}.ecc.pending": 0})


@fault
def gpu_spare_rows_gone(site: Site, *, gpu: int = 0, banks: int = 1) -> Effects:
    """Some memory banks of a GPU have no spare row left."""
    place = f"gpu.{gpu}.remap.histogram"
    return Effects(nvml={f"{place}.max": 2560 - banks, f"{place}.none": banks})


@fault
def gpu_repair_pending(site: Site, *, gpu: int = 0) -> Effects:
    """A memory channel of a GPU is repaired at its next reset."""
    return Effects(nvml={f"gpu.{gpu}.repair.channel": 1})


@fault
def gpu_pages_retired(site: Site, *, gpu: int = 0, count: int = 61) -> Effects:
    """A GPU of an older kind has retired many memory pages."""
    return Effects(nvml={f"gpu.{gpu}.retired.single": count - 1, f"gpu.{gpu}.retired.double": 1})


@fault
def gpu_inforom_corrupt(site: Site, *, gpu: int = 0) -> Effects:
    """The infoROM of a GPU has a bad checksum; the GPU works."""
    return Effects(nvml={f"gpu.{gpu}.inforom.valid": 0})


@fault
def gpu_clocks_locked(site: Site, *, gpu: int = 0, mhz: int = 1200) -> Effects:
    """Somebody locked the clocks of a GPU that computes."""
    place = f"gpu.{gpu}"
    return Effects(
        nvml={f"{place}.clocks.event_reasons": 2, f"{place}.clocks.graphics": mhz, f"{place}.utilization.gpu": 99}
    )


@fault
def gpu_app_clock_low(site: Site, *, gpu: int = 0, mhz: int = 1200) -> Effects:
    """Somebody lowered the application clock of a GPU."""
    return Effects(nvml={f"gpu.{gpu}.clocks.app.graphics": mhz})


@fault
def gpu_pcie_narrow(site: Site, *, gpu: int = 0, width: int = 8) -> Effects:
    """The driver sees a GPU's PCIe link with fewer lanes than its slot has."""
    return Effects(nvml={f"gpu.{gpu}.pcie.width": width})


@fault
def gpu_pcie_replays(site: Site, *, gpu: int = 0, rate: int = 600) -> Effects:
    """A GPU's PCIe link repeats so many packets a minute."""
    return Effects(nvml={f"gpu.{gpu}.pcie.replay_rate": rate})


@fault
def gpu_gsp_off(site: Site, *, gpu: int = 0) -> Effects:
    """One GPU runs without the firmware of its system processor."""
    return Effects(nvml={f"gpu.{gpu}.gsp.mode": 0})


@fault
def gpu_memory_orphaned(site: Site, *, gpu: int = 0, mib: int = 4096) -> Effects:
    """Memory of a GPU is in use and no process holds it."""
    return Effects(nvml={f"gpu.{gpu}.memory.used": mib << 20})
