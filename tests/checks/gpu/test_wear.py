"""What wears out of a GPU, its memory and its link, is judged by growth or by the device's own thresholds."""

from __future__ import annotations

import pytest

from checks import Finding
from checks.gpu.ecc import error_places, gpu_ecc
from checks.gpu.ecc_corrected import corrected, gpu_ecc_corrected
from checks.gpu.inforom import gpu_inforom_whole, inforom_whole
from checks.gpu.pages import Pages, gpu_pages, retired_pages
from checks.gpu.pcie import PcieLink, gpu_pcie, pcie_state
from checks.gpu.slowdown import IDLE, event_reasons
from checks.gpu.spare_rows import SpareRows, gpu_spare_rows, repair_pending, spare_rows, unrepairable_memory
from checks.gpu.values import Ecc, Fault, NvmlError
from tests.checks.gpu.test_health import Clock
from tests.fakes import Plant, h100s, pci_tree

NO = NvmlError(Fault.NOT_SUPPORTED)


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


@pytest.mark.parametrize(("flag", "expected"), [(False, []), (True, ["gpu_memory_unrepairable"]), (NO, [])])
def test_memory_that_the_device_gives_up_is_told(plant: Plant, flag: bool | NvmlError, expected: list[str]) -> None:
    nvml = h100s(1)
    nvml[0].told = {unrepairable_memory: flag}
    assert [f.code for f in gpu_spare_rows(plant(pci_tree(1), nvml=nvml))] == expected


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


@pytest.mark.parametrize(("whole", "expected"), [(True, []), (False, [("gpu_inforom", "warn", "node")]), (NO, [])])
def test_a_corrupt_inforom_is_a_warning(
    plant: Plant, whole: bool | NvmlError, expected: list[tuple[str, str, str]]
) -> None:
    """E47: nvidia-smi ends with 14 and the GPU works."""
    nvml = h100s(2)
    nvml[1].told = {inforom_whole: whole}
    assert [(f.code, f.status, f.blame) for f in gpu_inforom_whole(plant(pci_tree(2), nvml=nvml))] == expected


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
