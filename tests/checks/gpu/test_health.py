"""A GPU is at fault when the driver says so, or when doubt lasts while its siblings answer."""

from __future__ import annotations

import pytest

from checks import CHECKS, Finding, Host
from checks.gpu.health import gpu_health
from checks.gpu.values import Ecc, Fault, NvmlError
from checks.runner import run_check
from tests.fakes import BDFS, Plant, h100s, pci_tree


class Clock:
    """Monotonic seconds that a test moves by hand."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def seen(host: Host) -> list[tuple[str, str, str]]:
    return [(f.target, f.code, f.status) for f in gpu_health(host)]


def test_says_nothing_of_healthy_gpus(plant: Plant) -> None:
    assert seen(plant(pci_tree(), nvml=h100s())) == []


def test_a_lost_gpu_is_named_by_its_pci_id(plant: Plant) -> None:
    host = plant(pci_tree(), nvml=h100s(8, {3: Fault.GPU_IS_LOST}))
    assert seen(host) == [(BDFS[3], "gpu_lost", "fail")]


def test_every_bad_gpu_is_named(plant: Plant) -> None:
    """E85: the first bad GPU must not hide the others."""
    host = plant(pci_tree(), nvml=h100s(8, {1: Fault.GPU_IS_LOST, 4: Fault.RESET_REQUIRED, 6: Fault.GPU_IS_LOST}))
    assert seen(host) == [
        (BDFS[1], "gpu_lost", "fail"),
        (BDFS[4], "gpu_reset_required", "fail"),
        (BDFS[6], "gpu_lost", "fail"),
    ]


@pytest.mark.parametrize(
    ("action", "code", "status"),
    [
        (1, "gpu_reset_required", "fail"),
        (2, "gpu_reboot_required", "fail"),
        (3, "gpu_drain_p2p", "warn"),
        (4, "gpu_drain_and_reset", "fail"),
        (5, "gpu_recover_imex", "warn"),
        (99, "gpu_reset_required", "fail"),
    ],
)
def test_reads_the_recovery_action(plant: Plant, action: int, code: str, status: str) -> None:
    """E33, E123: counters are 0 and the recovery action is the only sign; an unknown one holds new work."""
    nvml = h100s()
    nvml[2].recovery_action = action
    assert seen(plant(pci_tree(), nvml=nvml)) == [(BDFS[2], code, status)]


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault.GPU_IS_LOST, [(BDFS[0], "gpu_lost", "fail")]),
        (Fault.RESET_REQUIRED, [(BDFS[0], "gpu_reset_required", "fail")]),
        (Fault.UNKNOWN, [(BDFS[0], "gpu_unsure", "unknown")]),
        (Fault.NOT_SUPPORTED, []),
        (Fault.CORRUPTED_INFOROM, [(BDFS[0], "gpu_inforom", "warn")]),
        (Fault.NO_PERMISSION, [(BDFS[0], "gpu_no_permission", "unknown")]),
    ],
)
def test_an_error_on_a_basic_query_is_not_swallowed(
    plant: Plant, fault: Fault, expected: list[tuple[str, str, str]]
) -> None:
    """E33, E47: what is not supported is left alone, anything else is said."""
    nvml = h100s()
    nvml[0].ecc = NvmlError(fault)
    assert seen(plant(pci_tree(), nvml=nvml)) == expected


def test_doubt_becomes_a_fault_only_when_it_stays_and_siblings_answer(plant: Plant) -> None:
    """Rule 1: unknown or time-out is a fault after two rounds 30 s apart, not before."""
    host = plant(pci_tree(), nvml=h100s(8, {5: Fault.TIMEOUT}))
    host.clock = clock = Clock()
    assert seen(host) == [(BDFS[5], "gpu_unsure", "unknown")]
    clock.seconds += 10
    assert seen(host) == [(BDFS[5], "gpu_unsure", "unknown")]
    clock.seconds += 21
    assert seen(host) == [(BDFS[5], "gpu_failing", "fail")]


def test_one_good_answer_ends_the_doubt(plant: Plant) -> None:
    host = plant(pci_tree(), nvml=h100s(8, {5: Fault.UNKNOWN}))
    host.clock = clock = Clock()
    seen(host)
    clock.seconds += 60
    host._nvml = h100s()
    assert seen(host) == []
    clock.seconds += 60
    host._nvml = h100s(8, {5: Fault.UNKNOWN})
    assert seen(host) == [(BDFS[5], "gpu_unsure", "unknown")]


@pytest.mark.parametrize("fault", [Fault.GPU_IS_LOST, Fault.UNKNOWN, Fault.TIMEOUT])
def test_all_alike_is_unknown_until_the_bus_confirms(plant: Plant, fault: Fault) -> None:
    """Rule 1: eight GPUs that fail in one way are more likely one driver."""
    host = plant(pci_tree(), nvml=h100s(8, dict.fromkeys(range(8), fault)))
    host.clock = clock = Clock()
    seen(host)
    clock.seconds += 100
    assert {(code, status) for _, code, status in seen(host)} == {("gpu_unsure", "unknown")}


def test_the_bus_confirms_all_alike(plant: Plant) -> None:
    host = plant(pci_tree(dead=range(8)), nvml=h100s(8, dict.fromkeys(range(8), Fault.GPU_IS_LOST)))
    assert seen(host) == [(bdf, "gpu_lost", "fail") for bdf in BDFS]


def test_a_gpu_that_answers_the_driver_is_not_lost(plant: Plant) -> None:
    """E102: two detectors disagree; a bus that is just being reset is no lost GPU."""
    assert seen(plant(pci_tree(dead=[3]), nvml=h100s())) == [(BDFS[3], "gpu_unsure", "unknown")]


def test_a_dead_gpu_that_the_driver_dropped_is_named(plant: Plant) -> None:
    """E44: one function reads all ones and NVML no longer lists it."""
    host = plant(pci_tree(4, dead=[3]), nvml=h100s(3))
    assert seen(host) == [(BDFS[3], "gpu_lost", "fail")]


def test_the_evidence_names_the_uuid(plant: Plant) -> None:
    nvml = h100s()
    nvml[7].ecc = NvmlError(Fault.RESET_REQUIRED)
    (found,) = gpu_health(plant(pci_tree(), nvml=nvml))
    assert found.evidence["uuid"] == nvml[7].gpu.uuid


def test_skips_a_node_without_gpus(plant: Plant) -> None:
    findings: tuple[Finding, ...] = run_check(CHECKS["gpu_health"], plant()).findings
    assert [f.status for f in findings] == ["skipped"]


def test_ecc_counters_alone_are_no_matter_of_health(plant: Plant) -> None:
    nvml = h100s()
    nvml[0].ecc = Ecc(volatile_uncorrected=3)
    assert seen(plant(pci_tree(), nvml=nvml)) == []


def test_an_unknown_error_is_not_said_to_wait_for_a_time_that_is_over(plant: Plant) -> None:
    """E33, E126: "for 800 of 30 s" told nobody why it is no fault."""
    host = plant(pci_tree(), nvml=h100s(8, {3: Fault.OTHER}))
    host.clock = iter(range(1000, 9000, 100)).__next__
    for _ in range(3):
        (found,) = gpu_health(host)
    assert found.code == "gpu_unsure" and "not known to us" in found.message and " of 30 s" not in found.message
