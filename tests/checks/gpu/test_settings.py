"""Power, modes, heat, links, wear and firmware of a GPU are each judged by the device's own limit or the profile."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from checks import Finding
from checks.catalog import load
from checks.gpu.app_clocks import application_clocks, gpu_app_clocks
from checks.gpu.compute_mode import compute_mode, gpu_compute_mode
from checks.gpu.ecc import error_places, gpu_ecc
from checks.gpu.ecc_corrected import corrected, gpu_ecc_corrected
from checks.gpu.ecc_mode import ecc_mode, gpu_ecc_mode
from checks.gpu.gsp import Gsp, gpu_gsp, gsp_firmware
from checks.gpu.inforom import gpu_inforom_whole, inforom_whole
from checks.gpu.pages import Pages, gpu_pages, retired_pages
from checks.gpu.pcie import PcieLink, gpu_pcie, pcie_state
from checks.gpu.power import Power, gpu_power, power
from checks.gpu.slowdown import IDLE, event_reasons
from checks.gpu.spare_rows import SpareRows, gpu_spare_rows, repair_pending, spare_rows
from checks.gpu.thermal import Margin, gpu_thermal, margin_left, memory_heat
from checks.gpu.values import Ecc, Fault, NvmlError, Temperature
from checks.runner import run_check
from tests.checks.gpu.test_health import Clock
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


def test_an_uncorrected_error_says_in_which_memory(plant: Plant) -> None:
    """Like E24: by location, and what the GPU does not count by location is told as before."""
    nvml = h100s(2)
    for index in range(2):
        nvml[index].ecc = Ecc(volatile_uncorrected=3)
    nvml[0].told = {error_places: {"DRAM": 2, "SRAM": 1, "SRAM parity": 1}}
    nvml[1].told = {error_places: NvmlError(Fault.UNKNOWN)}
    told, bare = gpu_ecc(plant(pci_tree(2), nvml=nvml))
    assert "since the driver was loaded (DRAM 2, SRAM 1, SRAM parity 1), limit 0" in told.message
    assert "since the driver was loaded, limit 0" in bare.message
    assert bare.code == told.code == "gpu_ecc_uncorrected"


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


def test_corrected_errors_are_judged_by_growth(plant: Plant) -> None:
    """A sum of a year is history; a million within a day is not; a driver loaded anew counts from 0."""
    nvml = h100s(1)
    host = plant(pci_tree(1), nvml=nvml)
    host.clock = clock = Clock()
    told = []
    for count in (90_000_000, 90_500_000, 91_000_001, 5, 6):
        nvml[0].told = {corrected: count}
        told.append([f.code for f in gpu_ecc_corrected(host)])
        clock.seconds += 900
    assert told == [[], [], ["gpu_ecc_corrected"], [], []]


@pytest.mark.parametrize(
    ("rows", "parts", "expected"),
    [
        (SpareRows(2560, 0, 0, 0, 0), (), []),
        (SpareRows(2500, 30, 20, 10, 0), (), []),
        (SpareRows(2559, 0, 0, 0, 1), (), ["gpu_remap_exhausted"]),
        (NO, ("memory channel", "TPC"), ["gpu_repair_pending", "gpu_repair_pending"]),
        (NO, NO, []),
        (NvmlError(Fault.UNKNOWN), (), ["gpu_unanswered"]),
    ],
)
def test_judges_spare_rows_and_repairs(
    plant: Plant, rows: SpareRows | NvmlError, parts: tuple[str, ...] | NvmlError, expected: list[str]
) -> None:
    nvml = h100s(1)
    nvml[0].told = {spare_rows: rows, repair_pending: parts}
    found = list(gpu_spare_rows(plant(pci_tree(1), nvml=nvml)))
    assert [f.code for f in found] == expected
    assert {f.status for f in found} <= {"warn", "unknown"}


@pytest.mark.parametrize(
    ("pages", "expected"),
    [
        (Pages(0, 0, False), []),
        (Pages(58, 1, False), []),
        (Pages(3, 1, True), ["gpu_pages_pending"]),
        (Pages(59, 1, False), ["gpu_pages_many"]),
        (Pages(64, 0, True), ["gpu_pages_many"]),
        (NO, []),
    ],
)
def test_judges_retired_pages_of_older_boards(plant: Plant, pages: Pages | NvmlError, expected: list[str]) -> None:
    """Sixty are NVIDIA's criterion; a page that waits needs a reset; both leave the node in service."""
    nvml = h100s(1)
    nvml[0].told = {retired_pages: pages}
    found = list(gpu_pages(plant(pci_tree(1), nvml=nvml)))
    assert [f.code for f in found] == expected
    assert {f.status for f in found} <= {"warn"}


@pytest.mark.parametrize(("whole", "expected"), [(True, []), (False, [("gpu_inforom", "warn", NODE)]), (NO, [])])
def test_a_corrupt_inforom_is_a_warning(
    plant: Plant, whole: bool | NvmlError, expected: list[tuple[str, str, str]]
) -> None:
    """E47: nvidia-smi ends with 14 and the GPU works."""
    nvml = h100s(2)
    nvml[1].told = {inforom_whole: whole}
    assert seen(gpu_inforom_whole(plant(pci_tree(2), nvml=nvml))) == expected


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


def links(plant: Plant, told: list[PcieLink], bits: int) -> list[str]:
    """Codes at the last of some looks five minutes apart."""
    nvml = h100s(1)
    host = plant(pci_tree(1), nvml=nvml)
    host.clock = clock = Clock()
    found: list[Finding] = []
    for link in told:
        nvml[0].told = {pcie_state: link, event_reasons: bits}
        found = list(gpu_pcie(host))
        clock.seconds += 300
    return [f.code for f in found]


GOOD, IDLING, NARROW = PcieLink(5, 16, 5, 16, 0), PcieLink(1, 16, 5, 16, 0), PcieLink(5, 8, 5, 16, 0)


@pytest.mark.parametrize(
    ("told", "bits", "expected"),
    [
        ([GOOD] * 4, 0, []),
        ([IDLING] * 9, IDLE, []),
        ([IDLING] * 2, 0, []),
        ([IDLING] * 3, 0, ["gpu_pcie_speed_low"]),
        ([IDLING, IDLING, GOOD, IDLING], 0, []),
        ([NARROW], IDLE, []),
        ([NARROW] * 2, IDLE, ["gpu_pcie_width_low"]),
        ([PcieLink(4, 8, 4, 8, 0)] * 4, 0, []),
        ([PcieLink()] * 4, 0, []),
        ([PcieLink(0, 0, 5, 16, None)] * 4, 0, []),
    ],
)
def test_judges_the_link_against_its_slot(plant: Plant, told: list[PcieLink], bits: int, expected: list[str]) -> None:
    """An idle GPU slows its link down and is right; what the slot cannot do is no expectation."""
    assert links(plant, told, bits) == expected


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ([7_000_000] * 4, []),
        ([0, 150, 300, 450], []),
        ([0, 0, 0, 600], ["gpu_pcie_replays"]),
        ([7_000_000, 7_000_200], ["gpu_pcie_replays"]),
        ([7_000_200, 3, 4], []),
    ],
)
def test_replays_are_judged_by_growth_and_rate(plant: Plant, counts: list[int], expected: list[str]) -> None:
    """Generation 5 with 16 lanes: 31 a minute; the sum of a life is history; a reset begins anew."""
    told = [PcieLink(5, 16, 5, 16, count) for count in counts]
    assert links(plant, told, IDLE) == expected


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
