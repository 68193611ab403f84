"""What holds a GPU's clocks down is told when it lasts and is not normal."""

from __future__ import annotations

import pytest

from checks import CHECKS, Finding, Host
from checks.gpu.clocks import Clocks, Load, gpu_clocks, load
from checks.gpu.slowdown import HW, HW_BRAKE, HW_THERMAL, IDLE, SW_THERMAL, Slowed, event_reasons, gpu_slowdown, slowed
from checks.gpu.values import Fault, NvmlError
from checks.runner import run_check
from tests.checks.gpu.test_health import Clock
from tests.fakes import BDFS, FakeGpu, Plant, h100s, pci_tree

POWER_CAP, SET, SYNC = 0x4, 0x2, 0x10


class Node:
    """Two GPUs; the first is asked over and over at a clock of our own."""

    def __init__(self, plant: Plant) -> None:
        self.nvml = h100s(2)
        self.host: Host = plant(pci_tree(2), nvml=self.nvml)
        self.host.clock = self.clock = Clock()
        for index in range(2):
            self.nvml[index].told = {event_reasons: IDLE, slowed: Slowed({})}

    @property
    def gpu(self) -> FakeGpu:
        return self.nvml[0]

    def looks(self, bits: list[int], *, milliseconds: int | None = None, step: float = 60.0) -> list[Finding]:
        """Findings of the last look, the driver counting ``milliseconds`` more of heat and brake at each."""
        found: list[Finding] = []
        for number, value in enumerate(bits):
            total = None if milliseconds is None else number * milliseconds * 10**6
            times = Slowed({SW_THERMAL: total, HW_THERMAL: total, HW_BRAKE: total})
            self.gpu.told = {event_reasons: value, slowed: times}
            found = [f for f in gpu_slowdown(self.host) if f.status != "ok"]
            self.clock.seconds += step
        return found


@pytest.fixture
def node(plant: Plant) -> Node:
    return Node(plant)


def codes(found: list[Finding]) -> set[str]:
    return {f.code for f in found}


@pytest.mark.parametrize(
    ("bits", "expected"),
    [
        (HW | HW_THERMAL, {"gpu_slowdown_thermal"}),
        (HW | HW_BRAKE, {"gpu_slowdown_power_brake"}),
        (SW_THERMAL, {"gpu_slowdown_sw_thermal"}),
        (HW, {"gpu_slowdown_hw"}),
        (HW | HW_THERMAL | HW_BRAKE, {"gpu_slowdown_thermal", "gpu_slowdown_power_brake"}),
        (HW_BRAKE | IDLE, {"gpu_slowdown_power_brake"}),
        (HW | IDLE, set()),
        (0, set()),
        (IDLE, set()),
        (POWER_CAP, set()),
        (SET, set()),
        (SYNC, set()),
        (0x100, set()),
        (POWER_CAP | SET | SYNC | 0x100, set()),
        (1 << 40, set()),
    ],
)
def test_a_cause_that_lasts_is_a_warning_and_normal_ones_are_none(node: Node, bits: int, expected: set[str]) -> None:
    """E55: power capping, idling, synchronous boost and set clocks are no fault; a reason of a later driver neither."""
    found = node.looks([bits] * 4)
    assert codes(found) == expected
    assert {f.status for f in found} <= {"warn"}
    assert {f.target for f in found} <= {BDFS[0]}


def test_one_look_proves_nothing(node: Node) -> None:
    """E55: a slowdown of no duration failed a diagnosis; two looks are one moment."""
    assert node.looks([HW_THERMAL]) == []
    assert node.looks([HW_THERMAL], step=1.0) == []
    (told,) = [f for f in gpu_slowdown(node.host) if f.target == BDFS[0]]
    assert (told.status, "one look" in told.message) == ("ok", True)


def test_looks_without_a_pause_are_one_moment(node: Node) -> None:
    assert node.looks([HW_THERMAL] * 20, step=2.0) == []


@pytest.mark.parametrize(
    ("milliseconds", "told"), [(0, False), (5_900, False), (6_100, True), (60_000, True), (900_000, True)]
)
def test_the_drivers_own_count_decides_where_it_counts(node: Node, milliseconds: int, told: bool) -> None:
    """E55: 0.0 seconds are none although the bit was seen; a tenth of the time is, though the bit never was."""
    bits = [HW_THERMAL] * 8 if milliseconds == 0 else [0] * 8
    found = codes(node.looks(bits, milliseconds=milliseconds))
    counted = {"gpu_slowdown_thermal", "gpu_slowdown_power_brake", "gpu_slowdown_sw_thermal"}
    assert found == (counted if told else set())


def test_old_slowness_is_forgotten(node: Node) -> None:
    assert codes(node.looks([HW_BRAKE] * 4)) == {"gpu_slowdown_power_brake"}
    assert node.looks([0] * 12) == []


def test_a_count_that_began_anew_is_no_time(node: Node) -> None:
    """The driver was loaded again: its count goes back, the difference means nothing, and the looks decide."""
    node.looks([0] * 4, milliseconds=90_000)
    assert node.looks([0], milliseconds=0) == []
    node.clock.seconds += 10_000
    node.looks([HW_THERMAL] * 14, milliseconds=90_000)
    assert codes(node.looks([HW_THERMAL], milliseconds=0)) == {"gpu_slowdown_thermal"}


def test_a_gpu_that_does_not_answer_hides_no_other(node: Node) -> None:
    """E85: the second GPU is judged although the first gives an error; what is not supported is none."""
    node.nvml[1].told = {event_reasons: HW_THERMAL, slowed: NvmlError(Fault.NOT_SUPPORTED)}
    for _ in range(4):
        node.gpu.told = {event_reasons: NvmlError(Fault.UNKNOWN)}
        found = list(gpu_slowdown(node.host))
        node.clock.seconds += 60
    assert [(f.target, f.code) for f in found] == [
        (BDFS[1], "gpu_slowdown_thermal"),
        (BDFS[0], "gpu_unanswered"),
    ]
    node.gpu.told = {}
    assert {f.target for f in gpu_slowdown(node.host)} == {BDFS[1]}


FULL = Load(100, Clocks(1980, 1980), Clocks(2619, 2619))
SLOW = Load(100, Clocks(900, 1980), Clocks(2619, 2619))
REST = Load(100, Clocks(1980, 1980), Clocks(405, 2619))


def run(node: Node, bits: int, told: Load | NvmlError, times: int = 4, step: float = 60.0) -> list[str]:
    found: list[Finding] = []
    for _ in range(times):
        node.gpu.told = {event_reasons: bits, load: told}
        found = list(gpu_clocks(node.host))
        node.clock.seconds += step
    return [f.code for f in found]


@pytest.mark.parametrize(
    ("bits", "told", "expected"),
    [
        (0, FULL, []),
        (0, SLOW, ["gpu_clock_low"]),
        (0, REST, ["gpu_memory_clock_low"]),
        (SET, SLOW, ["gpu_clock_locked"]),
        (SET, FULL, []),
        (POWER_CAP, SLOW, []),
        (HW_THERMAL | HW, SLOW, []),
        (IDLE, SLOW, []),
        (0, Load(10, Clocks(345, 1980), Clocks(2619, 2619)), []),
        (0, NvmlError(Fault.NOT_SUPPORTED), []),
        (0, NvmlError(Fault.TIMEOUT), ["gpu_unanswered"]),
    ],
)
def test_a_busy_gpu_is_near_its_clocks_or_says_why(
    node: Node, bits: int, told: Load | NvmlError, expected: list[str]
) -> None:
    """A power cap on a busy GPU is normal; an idle GPU's clocks are low as they should."""
    assert run(node, bits, told) == expected


def test_slow_clocks_must_last(node: Node) -> None:
    assert run(node, 0, SLOW, times=2) == []
    assert run(node, 0, FULL, times=1) == []
    assert run(node, 0, SLOW, times=2) == []
    assert run(node, 0, FULL, times=1) == []
    assert run(node, 0, SLOW, times=9, step=5.0) == []
    assert run(node, 0, FULL, times=1) == []
    assert run(node, 0, SLOW, times=2, step=300.0) == []
    assert run(node, 0, SLOW, times=9) == ["gpu_clock_low"]


def test_both_are_skipped_with_the_reason_where_the_driver_does_not_open(plant: Plant) -> None:
    for name in ("gpu_slowdown", "gpu_clocks"):
        (found,) = run_check(CHECKS[name], plant(pci_tree(1))).findings
        assert (found.status, "gpu_driver" in found.message) == ("skipped", True)
