"""GPUs are counted three ways against what was promised."""

from __future__ import annotations

import pytest

from checks import CHECKS, Finding
from checks.gpu.count import gpu_count
from checks.gpu.values import Fault, NvmlError
from checks.runner import run_check
from tests.fakes import BDFS, Plant, device_nodes, h100s, pci_tree


def codes(found: list[Finding]) -> list[str]:
    return [f.code for f in found]


def test_says_nothing_of_a_complete_node(plant: Plant) -> None:
    host = plant(pci_tree() | device_nodes(), nvml=h100s())
    assert list(gpu_count(host, expected=8, gres=8)) == []


def test_a_missing_gpu_is_found_by_pci_and_nvml(plant: Plant) -> None:
    """E44: NVML counts 3, lspci 4 with one rev ff, gres promises 4."""
    host = plant(pci_tree(4, dead=[3]) | device_nodes(4), nvml=h100s(3))
    (found,) = gpu_count(host, gres=4)
    assert (found.code, found.status, found.blame) == ("gpu_count_low", "fail", "node")
    assert found.evidence["missing"] == BDFS[3]
    assert found.evidence["found"] == 3


def test_a_gpu_that_left_the_bus_altogether_is_missed(plant: Plant) -> None:
    host = plant(pci_tree(7) | device_nodes(7), nvml=h100s(7))
    (found,) = gpu_count(host, expected=8)
    assert (found.code, found.evidence["found"], found.evidence["expected"]) == ("gpu_count_low", 7, 8)


def test_a_lost_gpu_that_is_still_listed_is_missed(plant: Plant) -> None:
    host = plant(pci_tree() | device_nodes(), nvml=h100s(8, {3: Fault.GPU_IS_LOST}))
    (found,) = gpu_count(host, expected=8)
    assert (found.code, found.evidence["missing"]) == ("gpu_count_low", BDFS[3])


@pytest.mark.parametrize(("expected", "gres"), [(8, 4), (4, 8)])
def test_the_larger_promise_wins_and_the_conflict_is_shown(plant: Plant, expected: int, gres: int) -> None:
    host = plant(pci_tree(4) | device_nodes(4), nvml=h100s(4))
    found = list(gpu_count(host, expected=expected, gres=gres))
    assert codes(found) == ["gpu_count_conflict", "gpu_count_low"]
    assert (found[0].status, found[0].blame) == ("warn", "config")


def test_zero_without_any_other_sign_is_a_blind_check(plant: Plant) -> None:
    """E107: 0 of 4 on a healthy node meant that the check could not see."""
    host = plant({"/proc/uptime": "100 100"})
    (found,) = gpu_count(host, expected=4)
    assert (found.code, found.status, found.blame) == ("gpu_count_no_sign", "unknown", "self")


def test_zero_beside_living_switches_is_a_fault(plant: Plant) -> None:
    host = plant(pci_tree(0, switches=4))
    assert codes(list(gpu_count(host, expected=8))) == ["gpu_count_low"]


def test_zero_by_an_open_driver_and_by_the_bus_is_a_fault(plant: Plant) -> None:
    tree = {"/sys/bus/pci/devices/0000:00:00.0/" + k: v for k, v in (("vendor", "0x8086"), ("device", "0x1"))}
    host = plant(tree | {"/sys/bus/pci/devices/0000:00:00.0/class": "0x060000"}, nvml=h100s(0))
    assert codes(list(gpu_count(host, expected=8))) == ["gpu_count_low"]
    assert codes(list(gpu_count(plant(), expected=8))) == ["gpu_count_no_sign"]


def test_more_than_promised_is_a_matter_of_settings(plant: Plant) -> None:
    host = plant(pci_tree() | device_nodes(), nvml=h100s())
    (found,) = gpu_count(host, expected=4)
    assert (found.code, found.blame) == ("gpu_count_high", "config")


def test_a_silent_driver_beside_a_full_bus_is_unknown(plant: Plant) -> None:
    host = plant(pci_tree() | device_nodes())
    assert codes(list(gpu_count(host, expected=8))) == ["gpu_count_unsure"]


def test_a_missing_device_node_is_named(plant: Plant) -> None:
    host = plant(pci_tree() | device_nodes(7), nvml=h100s())
    (found,) = gpu_count(host, expected=8)
    assert (found.code, found.evidence["missing"]) == ("gpu_device_node_missing", "7")


def test_a_gpu_for_a_virtual_machine_is_no_expectation(plant: Plant) -> None:
    tree = pci_tree(2) | {f"/sys/bus/pci/devices/{BDFS[1]}/driver": "-> ../../../bus/pci/drivers/vfio-pci"}
    host = plant(tree | device_nodes(1), nvml=h100s(1))
    assert codes(list(gpu_count(host))) == ["gpu_count_no_promise"]


def test_unknown_hardware_is_a_warning(plant: Plant) -> None:
    """E85: no silent skip, and a GPU that died is still missed."""
    host = plant(pci_tree(8, dead=[3]) | device_nodes(), nvml=h100s(8, {3: Fault.GPU_IS_LOST}))
    assert codes(list(gpu_count(host))) == ["gpu_count_no_promise", "gpu_count_low"]


@pytest.mark.parametrize("tree", [{}, {"/proc/uptime": "1 1"}])
def test_skips_a_node_without_gpus(plant: Plant, tree: dict[str, str | bytes]) -> None:
    (found,) = run_check(CHECKS["gpu_count"], plant(tree)).findings
    assert found.status == "skipped"


def test_a_desktop_gpu_without_its_driver_is_left_alone(plant: Plant) -> None:
    (found,) = run_check(CHECKS["gpu_count"], plant(pci_tree(1, switches=0))).findings
    assert found.status == "skipped"


def test_an_error_of_the_whole_driver_never_counts_as_missing(plant: Plant) -> None:
    nvml = h100s()
    nvml.gpus = _raises  # type: ignore[method-assign]
    host = plant(pci_tree() | device_nodes(), nvml=nvml)
    assert codes(list(gpu_count(host, expected=8))) == ["gpu_count_unsure"]


def _raises() -> tuple[()]:
    raise NvmlError(Fault.UNKNOWN)


def test_all_gpus_lost_alike_are_not_counted_out_while_the_bus_shows_them(plant: Plant) -> None:
    """E107, E33: all GPUs alike is unknown until the bus confirms it, here as in gpu_health."""
    lost = dict.fromkeys(range(8), Fault.GPU_IS_LOST)
    host = plant(pci_tree() | device_nodes(), nvml=h100s(8, lost))
    assert [(f.code, f.status) for f in gpu_count(host, expected=8)] == [("gpu_count_all_lost", "unknown")]
    host._nvml = h100s(8, {n: Fault.GPU_IS_LOST for n in range(7)})
    assert [(f.code, f.status) for f in gpu_count(host, expected=8)] == [("gpu_count_low", "fail")]


def test_all_gpus_lost_and_dead_on_the_bus_are_missing(plant: Plant) -> None:
    """E44."""
    lost = dict.fromkeys(range(8), Fault.GPU_IS_LOST)
    host = plant(pci_tree(8, dead=range(8)) | device_nodes(), nvml=h100s(8, lost))
    assert [(f.code, f.status) for f in gpu_count(host, expected=8)] == [("gpu_count_low", "fail")]
