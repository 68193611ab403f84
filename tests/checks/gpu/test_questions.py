"""Each question to a GPU is judged by its own limits."""

from __future__ import annotations

import pytest

from checks import CHECKS, Finding, Host
from checks.gpu.ecc import gpu_ecc
from checks.gpu.fabric import gpu_fabric
from checks.gpu.fabric_manager import fabric_manager
from checks.gpu.nvlink import gpu_nvlink
from checks.gpu.persistence import gpu_persistence
from checks.gpu.remap import gpu_remap
from checks.gpu.thermal import gpu_thermal
from checks.gpu.values import Ecc, Fabric, Fault, NvmlError, Remap, Temperature
from checks.runner import run_check
from tests.fakes import BDFS, FakeNvml, Plant, h100s, pci_tree

FM = "/nodevet-commands/systemctl_show_-p_LoadState,ActiveState,SubState_nvidia-fabricmanager.service"


def brief(findings: list[Finding]) -> list[tuple[str, str, str]]:
    return [(f.target, f.code, f.status) for f in findings]


def skipped(host: Host, check: str, **options: object) -> bool:
    return [f.status for f in run_check(CHECKS[check], host, options).findings] == ["skipped"]


@pytest.mark.parametrize(
    ("remap", "expected"),
    [
        (Remap(0, 0, False, False), []),
        (Remap(1, 2, True, False), [(BDFS[4], "gpu_remap_pending", "fail")]),
        (Remap(1, 2, False, True), [(BDFS[4], "gpu_remap_failed", "fail")]),
        (Remap(0, 2, False, False), []),
        (Remap(0, 600, False, False), [(BDFS[4], "gpu_remap_many", "warn")]),
    ],
)
def test_judges_row_remapping(plant: Plant, remap: Remap, expected: list[tuple[str, str, str]]) -> None:
    """E24, E25: pending waits for a reset and is healthy after it, failure is for replacement."""
    nvml = h100s()
    nvml[4].remap = remap
    assert brief(list(gpu_remap(plant(pci_tree(), nvml=nvml)))) == expected


@pytest.mark.parametrize(
    ("ecc", "expected"),
    [
        (Ecc(), []),
        (Ecc(aggregate_uncorrected=4), [(BDFS[0], "ok", "ok")]),
        (Ecc(volatile_uncorrected=1), [(BDFS[0], "gpu_ecc_uncorrected", "warn")]),
        (Ecc(volatile_uncorrected=1, sram_threshold_exceeded=True), [(BDFS[0], "gpu_sram_threshold", "fail")]),
        (NvmlError(Fault.NOT_SUPPORTED), []),
        (NvmlError(Fault.UNKNOWN), [(BDFS[0], "gpu_unanswered", "unknown")]),
    ],
)
def test_judges_memory_errors(plant: Plant, ecc: Ecc | NvmlError, expected: list[tuple[str, str, str]]) -> None:
    nvml = h100s()
    nvml[0].ecc = ecc
    assert brief(list(gpu_ecc(plant(pci_tree(), nvml=nvml)))) == expected


def test_uncorrected_errors_are_a_fault_where_no_row_can_be_remapped(plant: Plant) -> None:
    """E24: the counter decides only where NVML has no remap data."""
    nvml = h100s()
    nvml[0].ecc, nvml[0].remap = Ecc(volatile_uncorrected=2), NvmlError(Fault.NOT_SUPPORTED)
    assert brief(list(gpu_ecc(plant(pci_tree(), nvml=nvml)))) == [(BDFS[0], "gpu_ecc_uncorrected_no_remap", "fail")]


def links(down: int, count: int = 18) -> dict[int, bool]:
    return {link: link >= down for link in range(count)}


def test_names_every_gpu_with_a_link_down(plant: Plant) -> None:
    """E31, E85: one GPU has no link at all, another lost two; both are named."""
    nvml = h100s()
    nvml[1].links, nvml[6].links = links(18), links(2)
    found = list(gpu_nvlink(plant(pci_tree(), nvml=nvml), links=18))
    assert brief(found) == [(BDFS[1], "gpu_nvlink_down", "fail"), (BDFS[6], "gpu_nvlink_down", "fail")]
    assert (found[1].evidence["up"], found[1].evidence["down"]) == (16, "0,1")


def test_fewer_links_than_promised_is_a_fault(plant: Plant) -> None:
    nvml = h100s()
    nvml[0].links = links(0, 12)
    assert [f.evidence["up"] for f in gpu_nvlink(plant(pci_tree(), nvml=nvml), links=18)] == [12]


def test_links_are_not_judged_without_switch_or_profile(plant: Plant) -> None:
    nvml = h100s()
    for index in range(8):
        nvml[index].links = links(18)
    assert skipped(plant(pci_tree(switches=0), nvml=nvml), "gpu_nvlink")
    nvml[1].links = links(0)
    assert list(gpu_nvlink(plant(pci_tree(switches=0), nvml=nvml))) == []


def test_links_are_not_judged_in_mig_mode(plant: Plant) -> None:
    """E48: a GPU in MIG mode has no NVLink."""
    nvml = h100s()
    nvml[0].links, nvml[0].mig = links(18), True
    assert list(gpu_nvlink(plant(pci_tree(), nvml=nvml), links=18)) == []


GOOD = Fabric(3, 0, 32766, "ab" * 16)


@pytest.mark.parametrize(
    ("fabric", "clique", "expected"),
    [
        (Fabric(0), False, []),
        (GOOD, True, []),
        (Fabric(3), False, []),
        (Fabric(2), False, ["gpu_fabric_not_ready"]),
        (Fabric(1), False, ["gpu_fabric_not_ready"]),
        (Fabric(3, 23), False, ["gpu_fabric_failed"]),
        (Fabric(3, 0, 0, "0" * 32), True, ["gpu_fabric_no_clique"]),
        (Fabric(3, 0, 7, "0" * 32), True, ["gpu_fabric_no_clique"]),
        (Fabric(3, 0, 32766, "ab" * 16, health=0b01), False, ["gpu_fabric_degraded"]),
        (Fabric(3, 0, 32766, "ab" * 16, health=0b010000), False, ["gpu_fabric_unhealthy"]),
        (Fabric(3, 0, 32766, "ab" * 16, health=0b10101010), False, []),
        (NvmlError(Fault.NOT_SUPPORTED), True, []),
    ],
)
def test_judges_state_and_status_of_the_fabric(
    plant: Plant, fabric: Fabric | NvmlError, clique: bool, expected: list[str]
) -> None:
    """E59, E111: completed is not enough, the status counts too, and on a rack the clique."""
    nvml = h100s()
    for index in range(8):
        nvml[index].fabric = GOOD
    nvml[3].fabric = fabric
    host = plant(pci_tree() | {"/proc/uptime": "5000.0 1.0"}, nvml=nvml)
    assert [f.code for f in gpu_fabric(host, clique=clique) if f.status != "ok"] == expected


def test_a_fabric_may_still_start_after_boot(plant: Plant) -> None:
    nvml = h100s(1)
    nvml[0].fabric = Fabric(2)
    host = plant(pci_tree(1) | {"/proc/uptime": "40.0 1.0"}, nvml=nvml)
    assert brief(list(gpu_fabric(host))) == [(BDFS[0], "gpu_fabric_starting", "warn")]


@pytest.mark.parametrize(
    ("load", "active", "sub", "expected"),
    [
        ("loaded", "active", "running", []),
        ("loaded", "failed", "failed", ["fabric_manager_down"]),
        ("loaded", "inactive", "dead", ["fabric_manager_down"]),
        ("loaded", "activating", "start", ["fabric_manager_starting"]),
        ("loaded", "activating", "auto-restart", ["fabric_manager_down"]),
        ("not-found", "inactive", "dead", ["fabric_manager_absent"]),
        ("masked", "inactive", "dead", ["fabric_manager_absent"]),
    ],
)
def test_the_fabric_manager_must_run_beside_switches(
    plant: Plant, load: str, active: str, sub: str, expected: list[str]
) -> None:
    """E59: dead for 20 days while every GPU looked healthy."""
    host = plant(pci_tree() | {FM: f"LoadState={load}\nActiveState={active}\nSubState={sub}\n"})
    assert [f.code for f in fabric_manager(host)] == expected


def test_a_failed_fabric_manager_without_switches_is_irrelevant(plant: Plant) -> None:
    """E60: installed on a box without NVSwitch it always fails."""
    host = plant(pci_tree(4, switches=0) | {FM: "LoadState=loaded\nActiveState=failed\nSubState=failed\n"})
    assert skipped(host, "fabric_manager")


@pytest.mark.parametrize("text", ["", "garbage", "LoadState=loaded\n", "\x00\xff=\n"])
def test_a_garbled_answer_of_systemctl_is_our_trouble(plant: Plant, text: str) -> None:
    host = plant(pci_tree() | {FM: text})
    (found,) = run_check(CHECKS["fabric_manager"], host).findings
    assert (found.status, found.blame) == ("unknown", "self")


@pytest.mark.parametrize(("celsius", "expected"), [(35, []), (86, []), (87, ["gpu_hot"]), (95, ["gpu_hot"])])
def test_heat_is_judged_by_the_devices_own_limit(plant: Plant, celsius: int, expected: list[str]) -> None:
    """E55: 75 degrees is no matter, the limit is the device's own, and it is a warning that drains nothing."""
    nvml = h100s(2)
    nvml[1].temperature = Temperature(celsius, 87)
    assert [f.code for f in gpu_thermal(plant(pci_tree(2), nvml=nvml))] == expected


def test_persistence_mode_is_a_warning_after_a_grace(plant: Plant) -> None:
    """E49: right after boot the mode reads off; later it is a warning, never a fault."""
    nvml = h100s(2)
    nvml[0].persistence = False
    found = list(gpu_persistence(plant(pci_tree(2) | {"/proc/uptime": "3600.0 1.0"}, nvml=nvml)))
    assert brief(found) == [(BDFS[0], "gpu_persistence_off", "warn")]
    assert found[0].blame == "config"
    assert skipped(plant({"/proc/uptime": "40.0 1.0"}, nvml=nvml), "gpu_persistence")


@pytest.mark.parametrize("check", ["gpu_ecc", "gpu_remap", "gpu_nvlink", "gpu_fabric", "gpu_thermal"])
def test_one_bad_gpu_does_not_hide_the_others(plant: Plant, check: str) -> None:
    """E85: a lost GPU is left to gpu_health and the rest are asked."""
    nvml: FakeNvml = h100s(8, {0: Fault.GPU_IS_LOST})
    nvml[7].ecc = Ecc(volatile_uncorrected=1)
    nvml[7].remap = Remap(0, 1, True, False)
    nvml[7].links = links(1)
    nvml[7].fabric = Fabric(3, 9)
    nvml[7].temperature = Temperature(99, 87)
    found = run_check(CHECKS[check], plant(pci_tree(), nvml=nvml)).findings
    assert [f.target for f in found] == [BDFS[7]]


@pytest.mark.parametrize("check", sorted(n for n in CHECKS if n.startswith("gpu_")))
def test_skips_a_node_without_gpus(plant: Plant, check: str) -> None:
    assert skipped(plant(), check)
