"""Power, modes, heat, clocks and firmware of a GPU are judged by the device's own limits or the profile."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from checks import Finding
from checks.catalog import load
from checks.gpu.app_clocks import application_clocks, gpu_app_clocks
from checks.gpu.compute_mode import compute_mode, gpu_compute_mode
from checks.gpu.ecc_corrected import corrected
from checks.gpu.ecc_mode import ecc_mode, gpu_ecc_mode
from checks.gpu.gsp import Gsp, gpu_gsp, gsp_firmware
from checks.gpu.inforom import inforom_whole
from checks.gpu.pages import retired_pages
from checks.gpu.pcie import pcie_state
from checks.gpu.power import Power, gpu_power, power
from checks.gpu.slowdown import event_reasons
from checks.gpu.spare_rows import spare_rows
from checks.gpu.thermal import Margin, gpu_thermal, margin_left, memory_heat
from checks.gpu.values import Fault, NvmlError, Temperature
from checks.runner import run_check
from tests.fakes import BDFS, Plant, h100s, pci_tree


def seen(found: Iterable[Finding]) -> list[tuple[str, str, str | None]]:
    return [(f.code, f.status, f.blame) for f in found]


CONFIG, NODE = "config", "node"


@pytest.mark.parametrize(
    ("told", "watts", "expected"),
    [
        (Power(68.5, 700, 700, 700), 0, []),
        (Power(68.5, 700, 400, 700), 0, [("gpu_power_limited", "warn", CONFIG)]),
        (Power(68.5, 400, None, 700), 0, [("gpu_power_limited", "warn", CONFIG)]),
        (Power(68.5, 500, 500, 700), 500, []),
        (Power(68.5, 500, 500, 700), 600, [("gpu_power_limited", "warn", CONFIG)]),
        (Power(68.5, 699.5, 699.5, 700), 0, []),
        (Power(68.5, 800, 800, 700), 0, []),
        (Power(690, 700, 700, None), 0, []),
        (Power(0, 700, 700, 700), 0, [("gpu_power_unreadable", "warn", NODE)]),
        (Power(None, 700, 700, 700), 0, []),
        (Power(4_000_000, 700, 700, 700), 0, [("gpu_power_unreadable", "warn", NODE)]),
        (Power(), 0, []),
        (Power(12.0), 300, []),
        (NvmlError(Fault.NOT_SUPPORTED), 0, []),
        (NvmlError(Fault.UNKNOWN), 0, [("gpu_unanswered", "unknown", NODE)]),
    ],
)
def test_judges_power(
    plant: Plant, told: Power | NvmlError, watts: float, expected: list[tuple[str, str, str]]
) -> None:
    """A board without power management has nothing to be held to; a limit that the site wants is none too low."""
    nvml = h100s(2)
    nvml[0].told = {power: told}
    assert seen(gpu_power(plant(pci_tree(2), nvml=nvml), watts=watts)) == expected


@pytest.mark.parametrize(
    ("number", "mode", "expected"),
    [
        (0, "", []),
        (3, "", []),
        (1, "", []),
        (2, "", [("gpu_compute_prohibited", "fail", CONFIG)]),
        (2, "prohibited", []),
        (3, "exclusive_process", []),
        (3, "default", [("gpu_compute_mode", "warn", CONFIG)]),
        (0, "exclusive_process", [("gpu_compute_mode", "warn", CONFIG)]),
        (77, "", []),
        (77, "default", [("gpu_compute_mode", "warn", CONFIG)]),
    ],
)
def test_judges_the_compute_mode(plant: Plant, number: int, mode: str, expected: list[tuple[str, str, str]]) -> None:
    """Without an expectation only the mode that no program can use is told, and as a setting it drains nothing."""
    nvml = h100s(1)
    nvml[0].told = {compute_mode: number}
    assert seen(gpu_compute_mode(plant(pci_tree(1), nvml=nvml), mode=mode)) == expected


NO = NvmlError(Fault.NOT_SUPPORTED)


@pytest.mark.parametrize(
    ("temperature", "margin", "expected"),
    [
        (Temperature(91, 89), NO, ["gpu_hot"]),
        (NO, Margin(29, 58, -2), []),
        (NO, Margin(86, 1, -2), []),
        (NO, Margin(88, -1, -2), []),
        (NO, Margin(89, -2, -2), ["gpu_hot"]),
        (NO, Margin(93, -6, -2), ["gpu_hot"]),
        (NO, None, []),
        (NO, NO, []),
        (NvmlError(Fault.UNKNOWN), NvmlError(Fault.UNKNOWN), ["gpu_unanswered"]),
    ],
)
def test_a_board_that_tells_only_its_margin_is_judged_by_it(
    plant: Plant, temperature: Temperature | NvmlError, margin: Margin | NvmlError | None, expected: list[str]
) -> None:
    """E55: newer boards tell no slowdown temperature, only how far it is; the limit is the device's own."""
    nvml = h100s(1)
    nvml[0].temperature, nvml[0].told = temperature, {margin_left: margin}
    assert [f.code for f in gpu_thermal(plant(pci_tree(1), nvml=nvml))] == expected


@pytest.mark.parametrize(
    ("heat", "expected"),
    [((37, 95), []), ((94, 95), []), ((95, 95), ["gpu_memory_hot"]), ((120, 105), ["gpu_memory_hot"]), (None, [])],
)
def test_memory_is_judged_by_its_own_limit(plant: Plant, heat: tuple[int, int] | None, expected: list[str]) -> None:
    nvml = h100s(1)
    nvml[0].told = {memory_heat: heat}
    found = list(gpu_thermal(plant(pci_tree(1), nvml=nvml)))
    assert [f.code for f in found] == expected
    assert {f.status for f in found} <= {"warn"}


@pytest.mark.parametrize(
    ("told", "expected", "codes"),
    [
        ((True, True), "on", []),
        ((False, False), "", []),
        ((False, False), "off", []),
        ((False, False), "on", ["gpu_ecc_mode"]),
        ((True, True), "off", ["gpu_ecc_mode"]),
        ((True, False), "on", ["gpu_ecc_mode_pending"]),
        ((True, False), "", ["gpu_ecc_mode_pending"]),
        ((False, True), "on", ["gpu_ecc_mode_pending", "gpu_ecc_mode"]),
        (NO, "on", []),
    ],
)
def test_judges_the_ecc_mode_by_the_profile(
    plant: Plant, told: tuple[bool, bool] | NvmlError, expected: str, codes: list[str]
) -> None:
    nvml = h100s(1)
    nvml[0].told = {ecc_mode: told}
    found = list(gpu_ecc_mode(plant(pci_tree(1), nvml=nvml), expected=expected))
    assert [f.code for f in found] == codes
    assert {f.blame for f in found} <= {"config"}


@pytest.mark.parametrize(
    ("told", "wanted", "expected"),
    [
        ({"graphics": (1980, 1980), "memory": (2619, 2619)}, 0, []),
        ({"graphics": (1200, 1980)}, 0, ["gpu_clock_set_low"]),
        ({"graphics": (1200, 1980)}, 1200, []),
        ({"graphics": (1410, 1275)}, 0, []),
        ({"graphics": (1275, 1275)}, 1410, ["gpu_clock_set_low"]),
        ({"memory": (1215, 1593)}, 0, ["gpu_clock_set_low"]),
        ({"graphics": (1200, 0)}, 0, []),
        (NO, 1410, []),
    ],
)
def test_judges_application_clocks(
    plant: Plant, told: dict[str, tuple[int, int]] | NvmlError, wanted: int, expected: list[str]
) -> None:
    nvml = h100s(1)
    nvml[0].told = {application_clocks: told}
    found = list(gpu_app_clocks(plant(pci_tree(1), nvml=nvml), graphics_mhz=wanted))
    assert [f.code for f in found] == expected
    assert {f.blame for f in found} <= {"config"}


@pytest.mark.parametrize(
    ("told", "expected", "codes"),
    [
        ([Gsp(True, "550.54.15")] * 3, "", []),
        ([Gsp(False)] * 3, "", []),
        ([Gsp(False)] * 3, "off", []),
        ([Gsp(False)] * 3, "on", ["gpu_gsp_mode"] * 3),
        ([Gsp(True, "550.54.15")] * 2 + [Gsp(False)], "", ["gpu_gsp_mode"]),
        ([Gsp(True, "535.1.2")] + [Gsp(True, "550.54.15")] * 2, "", ["gpu_gsp_version"]),
        ([Gsp(True, "N/A"), Gsp(True), NO], "", []),
    ],
)
def test_judges_the_gsp_firmware(plant: Plant, told: list[Gsp | NvmlError], expected: str, codes: list[str]) -> None:
    """Switched off everywhere is a known remedy for Xid 119; one GPU apart from its like is not."""
    nvml = h100s(3)
    for index, one in enumerate(told):
        nvml[index].told = {gsp_firmware: one}
    found = list(gpu_gsp(plant(pci_tree(3), nvml=nvml), expected=expected))
    assert [f.code for f in found] == codes
    assert {f.blame for f in found} <= {"config"}


ASKED = {
    "gpu_power": power,
    "gpu_compute_mode": compute_mode,
    "gpu_ecc_mode": ecc_mode,
    "gpu_ecc_corrected": corrected,
    "gpu_spare_rows": spare_rows,
    "gpu_pages": retired_pages,
    "gpu_inforom_whole": inforom_whole,
    "gpu_app_clocks": application_clocks,
    "gpu_pcie": pcie_state,
    "gpu_gsp": gsp_firmware,
    "gpu_slowdown": event_reasons,
    "gpu_clocks": event_reasons,
}


@pytest.mark.parametrize("name", sorted(ASKED))
@pytest.mark.parametrize("fault", [Fault.UNKNOWN, Fault.TIMEOUT, Fault.GPU_IS_LOST, Fault.NO_PERMISSION, Fault.OTHER])
def test_an_error_is_told_and_is_no_fault(plant: Plant, name: str, fault: Fault) -> None:
    """E33, E85: gpu_health alone says that a GPU is at fault; here the reason is told, and the others are judged."""
    nvml = h100s(2)
    nvml[0].told = {ASKED[name]: NvmlError(fault, "words of the driver")}
    (found,) = run_check(load()[name], plant(pci_tree(2), nvml=nvml)).findings
    assert (found.target, found.status) == (BDFS[0], "unknown")
    wanted = "refuses" if fault is Fault.NO_PERMISSION else "words of the driver"
    assert wanted in found.message
