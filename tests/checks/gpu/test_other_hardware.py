"""Nodes that are not eight H100s behind NVSwitches: GPUs held by other drivers, or wired otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from checks import CHECKS
from checks.gpu.count import gpu_count
from checks.gpu.driver import gpu_driver
from checks.gpu.fabric import gpu_fabric
from checks.gpu.fabric_manager import fabric_manager
from checks.gpu.health import gpu_health
from checks.gpu.values import Fabric, Fault, NvmlError
from checks.runner import run_check
from tests.checks.gpu.test_driver import MODULE, closed
from tests.checks.gpu.test_health import Clock, seen
from tests.fakes import BDFS, FakeNvml, Plant, device_nodes, h100s, pci_tree


def bound(name: str, *indexes: int) -> dict[str, str]:
    return {f"/sys/bus/pci/devices/{BDFS[i]}/driver": f"-> ../../../bus/pci/drivers/{name}" for i in indexes}


def test_a_gpu_that_another_driver_holds_is_named(plant: Plant) -> None:
    """Like E44: seven for jobs and one left to a virtual machine by mistake; the operator reads which and why."""
    host = plant(pci_tree() | bound("vfio-pci", 5) | device_nodes(7), nvml=h100s(7))
    (found,) = gpu_count(host, expected=8)
    assert found.code == "gpu_count_low"
    assert f"{BDFS[5]} (bound to vfio-pci)" in found.message


@pytest.mark.parametrize("name", ["vfio-pci", "nouveau"])
def test_all_gpus_held_by_another_driver_say_so(plant: Plant, name: str) -> None:
    """Like E44, E50: no driver of ours, and the reason names whose they are instead."""
    tree = pci_tree(4, switches=0) | bound(name, 0, 1, 2, 3)
    assert [f.code for f in gpu_count(closed(plant(tree), Fault.DRIVER_NOT_LOADED), expected=4)] == ["gpu_count_low"]
    (found,) = gpu_driver(closed(plant(), Fault.DRIVER_NOT_LOADED), expected=4)
    assert found.message == f"kernel driver is not loaded, 4 GPUs expected, 4 bound to {name}"


def test_a_sleeping_gpu_of_a_virtual_machine_is_not_lost(plant: Plant) -> None:
    """Like E44: what vfio-pci holds may be powered down and read all ones; no job could have had it."""
    host = plant(pci_tree(2, dead=[1]) | bound("vfio-pci", 1), nvml=h100s(1))
    assert list(gpu_health(host)) == []


@pytest.mark.parametrize(("number", "words"), [(8, "insufficient power"), (11, "irq issue")])
def test_a_gpu_without_power_or_interrupts_is_at_fault(plant: Plant, number: int, words: str) -> None:
    """Like E33: the driver says what it is of one GPU, over and over, while the others answer."""
    host = plant(pci_tree(), nvml=h100s(8, {2: Fault.of(number)}))
    host.clock = clock = Clock()
    assert seen(host) == [(BDFS[2], "gpu_unsure", "unknown")]
    clock.seconds += 60
    (found,) = gpu_health(host)
    assert (found.code, words in found.message) == ("gpu_failing", True)


def test_an_unknown_error_keeps_the_drivers_words(plant: Plant) -> None:
    """Like E33: an error number of a later driver is no fault, and the operator can look it up."""
    nvml = h100s()
    nvml[1].ecc = NvmlError(Fault.of(77), "Weird State (77)")
    (found,) = gpu_health(plant(pci_tree(), nvml=nvml))
    assert (found.code, "Weird State (77)" in found.message) == ("gpu_unsure", True)


def tray(fabric: Fabric, name: str = "NVIDIA GB200") -> FakeNvml:
    """A compute tray of a rack: four GPUs, no NVSwitch on its PCI bus."""
    nvml = h100s(4)
    for index in range(4):
        nvml[index].gpu = replace(nvml[index].gpu, name=name)
        nvml[index].fabric = fabric
    return nvml


@pytest.mark.parametrize(
    ("fabric", "name", "expected"),
    [
        (Fabric(3, 0, 32766, "ab" * 16), "NVIDIA GB200", set()),
        (Fabric(3, 0, 0, "0" * 32), "NVIDIA GB200", {"gpu_fabric_no_clique"}),
        (Fabric(3, 0, 0, "0" * 32), "NVIDIA GB300", {"gpu_fabric_no_clique"}),
        (Fabric(3, 0, 0, "0" * 32), "NVIDIA B200", set()),
        (Fabric(0), "NVIDIA GB200", set()),
        (Fabric(3, 29, 0, "0" * 32), "NVIDIA GB200", {"gpu_fabric_failed"}),
        (Fabric(4), "NVIDIA GB200", {"gpu_unanswered"}),
        (Fabric(200), "NVIDIA H100", {"gpu_unanswered"}),
    ],
)
def test_a_tray_without_a_profile_still_needs_its_rack(
    plant: Plant, fabric: Fabric, name: str, expected: set[str]
) -> None:
    """E59: a completed fabric without cluster passed for one; a later driver's state is no fault."""
    host = plant(pci_tree(4, switches=0) | {"/proc/uptime": "5000 1"}, nvml=tray(fabric, name))
    found = [f for f in gpu_fabric(host) if f.status != "ok"]
    assert {f.code for f in found} == expected
    assert run_check(CHECKS["fabric_manager"], host).findings[0].status == "skipped"


@pytest.mark.parametrize("name", ["libcuda.so.1", "libnvidia-ptxjitcompiler.so.1"])
def test_another_empty_library_is_a_fault(plant: Plant, name: str) -> None:
    """Like E51: NVML works, and what every CUDA program loads has 0 bytes."""
    host = plant(pci_tree() | MODULE | {f"/usr/lib64/{name}": ""}, nvml=h100s())
    (found,) = gpu_driver(host, expected=8)
    assert (found.code, found.message) == ("gpu_driver_library", f"driver library /usr/lib64/{name} has 0 bytes")


@pytest.mark.parametrize("name", ["libnvidia-ml.so.1", "libcuda.so.1"])
def test_an_empty_library_beside_a_whole_one_is_none(plant: Plant, name: str) -> None:
    """Like E51: container images leave empty stand-ins in folders that the loader does not use."""
    tree = pci_tree() | MODULE | {f"/usr/lib/aarch64-linux-gnu/{name}": b"\x7fELF", f"/usr/lib/{name}": ""}
    assert list(gpu_driver(plant(tree, nvml=h100s()), expected=8)) == []
    with pytest.raises(NvmlError, match="no NVML for the tree"):
        plant().nvml()


SHOW = "/nodevet-commands/systemctl_show_-p_{}_nvidia-fabricmanager.service"
ACTIVE = {
    SHOW.format("LoadState,ActiveState,SubState"): "LoadState=loaded\nActiveState=active\nSubState=running\n",
}


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        ("ActiveEnterTimestampMonotonic=41000000\n", []),
        ("ActiveEnterTimestampMonotonic=14400000000\n", ["fabric_manager_restarted"]),
        ("ActiveEnterTimestampMonotonic=0\n", []),
        ("ActiveEnterTimestampMonotonic=\n", []),
        ("garbage", []),
        ("ActiveEnterTimestampMonotonic=" + "9" * 400, []),
        (None, []),
    ],
)
def test_a_fabric_manager_started_under_live_gpus_is_told(plant: Plant, since: str | None, expected: list[str]) -> None:
    """E59b: four hours after boot; everything looks well, and NVLS fails from three GPUs on."""
    told = {} if since is None else {SHOW.format("ActiveEnterTimestampMonotonic"): since}
    found = list(fabric_manager(plant(pci_tree() | ACTIVE | told)))
    assert [f.code for f in found] == expected
    assert {f.status for f in found} <= {"warn"}
