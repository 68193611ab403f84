"""NVLinks are judged by count, speed, growth of their errors and bit error rates, and only where there are any."""

from __future__ import annotations

from pathlib import Path

import pynvml
import pytest

from checks import CHECKS, Finding
from checks.gpu.nvlink import gpu_nvlink
from checks.gpu.nvlink_errors import Told, bit_error_rate, gpu_nvlink_errors, question
from checks.gpu.nvlink_speed import gpu_nvlink_speed, link_speeds
from checks.gpu.values import Fabric, Fault, NvmlError
from checks.judge.policy import shipped
from checks.profile import profiles, typed_options
from checks.runner import run_check
from tests.fakes import BDFS, FakeNvml, Plant, h100s, pci_tree, planter

POLICY = "/etc/nodevet/policy.d"
FULL = dict.fromkeys(range(18), 26.562)
REPLAY = "NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY"
RECOVERY = "NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY"
BOOT = {"/proc/sys/kernel/random/boot_id": "boot-1\n"}


def speeds(nvml: FakeNvml, index: int, told: dict[int, float] | NvmlError) -> None:
    nvml[index].told[link_speeds] = told


def fast(count: int = 8) -> FakeNvml:
    nvml = h100s(count)
    for index in range(count):
        speeds(nvml, index, FULL)
    return nvml


def brief(found: list[Finding]) -> list[tuple[str, str, str]]:
    return [(f.target, f.code, f.status) for f in found if f.status != "ok"]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (FULL, None),
        ({**FULL, 3: 0.0}, None),
        ({**FULL, 3: 13.281, 4: 20.0}, "2 of 18 NVLinks at less than 25 GB/s, the slowest, 3, at 13.281"),
        (dict.fromkeys(range(18), 13.281), "18 of 18 NVLinks at less than 25 GB/s, the slowest, 0, at 13.281"),
        ({}, None),
        (NvmlError(Fault.NOT_SUPPORTED), None),
    ],
)
def test_a_slow_link_is_named(plant: Plant, told: dict[int, float] | NvmlError, expected: str | None) -> None:
    nvml = fast()
    speeds(nvml, 2, told)
    found = list(gpu_nvlink_speed(plant(pci_tree(), nvml=nvml), min_gbytes=25.0))
    assert [f.message for f in found] == ([expected] if expected else [])
    assert brief(found) == ([(BDFS[2], "gpu_nvlink_slow", "warn")] if expected else [])


def test_speed_is_not_asked_where_none_is_promised(plant: Plant) -> None:
    nvml = h100s()
    speeds(nvml, 2, dict.fromkeys(range(18), 1.0))
    (found,) = run_check(CHECKS["gpu_nvlink_speed"], plant(pci_tree(), nvml=nvml)).findings
    assert found.status == "skipped"


def test_an_error_of_the_driver_is_no_fault_of_a_link(plant: Plant) -> None:
    """Rule 1."""
    nvml = fast()
    speeds(nvml, 2, NvmlError(Fault.TIMEOUT))
    found = list(gpu_nvlink_speed(plant(pci_tree(), nvml=nvml), min_gbytes=25.0))
    assert brief(found) == [(BDFS[2], "gpu_unanswered", "unknown")]


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((12, 12, 12, 12), []),
        ((12, 12, 0, 0), []),
        ((12, 12, 8, 8), [BDFS[2], BDFS[3]]),
        ((18, 18, 17, 18), [BDFS[2]]),
    ],
)
def test_cards_in_pairs_are_compared_with_each_other(
    plant: Plant, counts: tuple[int, ...], expected: list[str]
) -> None:
    """Like E85: bridges on H100 NVL, of which nobody promised a number."""
    nvml = h100s(4)
    for index, up in enumerate(counts):
        nvml[index].links = {link: link < up for link in range(18)}
    found = list(gpu_nvlink(plant(pci_tree(4, switches=0), nvml=nvml)))
    assert brief(found) == [(gpu, "gpu_nvlink_uneven", "warn") for gpu in expected]


def test_a_promised_bridge_needs_its_links_and_no_more(plant: Plant) -> None:
    nvml = h100s(2)
    nvml[0].links = {link: link < 12 for link in range(18)}
    nvml[1].links = {link: link < 11 for link in range(18)}
    found = list(gpu_nvlink(plant(pci_tree(2, switches=0), nvml=nvml), links=12))
    assert brief(found) == [(BDFS[1], "gpu_nvlink_down", "fail")]


class Node:
    """Two GPUs whose counters a test sets; the first look has been taken."""

    def __init__(self, plant: Plant, *, look: bool = True) -> None:
        self.nvml = h100s(2)
        self.host = plant(pci_tree(2) | BOOT, nvml=self.nvml)
        self.clock = 1000.0
        self.host.clock = lambda: self.clock
        self.policy = POLICY
        self.set({}, 0)
        self.set({}, 1)
        if look:
            self.look()

    def set(self, values: dict[tuple[str, int], int], gpu: int = 0, links: int = 4) -> None:
        usual = {(name, link): 7 for name in (REPLAY, RECOVERY) for link in range(links)}
        self.nvml[gpu].told = {question(self.policy): Told(links, {**usual, **values})}

    def look(self, seconds: float = 300.0) -> list[Finding]:
        self.clock += seconds
        return [f for f in gpu_nvlink_errors(self.host, policy_dir=self.policy) if f.status != "ok"]


@pytest.fixture
def node(plant: Plant) -> Node:
    return Node(plant)


def test_what_stood_before_is_history(node: Node) -> None:
    """E78: counters other than zero since boot are normal."""
    assert node.look() == []


@pytest.mark.parametrize(("replays", "expected"), [(100, 0), (101, 1), (5000, 1)])
def test_growth_beyond_the_limit_is_a_warning(node: Node, replays: int, expected: int) -> None:
    node.set({(REPLAY, 2): 7 + replays})
    found = node.look()
    assert brief(found) == [(BDFS[0], "gpu_nvlink_errors", "warn")] * expected
    if replays == 5000:
        want = "NVLink: link 2: packets had to be sent again (5000 within 300 s, limit 100)"
        assert (found[0].message, found[0].evidence["links"]) == (want, "2")


def test_one_recovery_is_told_and_passes(node: Node) -> None:
    node.set({(RECOVERY, 1): 8})
    assert len(node.look()) == 1
    assert len(node.look(3000.0)) == 1
    assert node.look(1000.0) == []


def test_one_finding_for_all_links_of_a_gpu(node: Node) -> None:
    values = {(name, link): 9000 + link for name in (REPLAY, RECOVERY) for link in range(4)}
    node.set(values)
    (found,) = node.look()
    assert found.evidence["count"] == 8 and found.evidence["links"] == "0,1,2,3"
    assert found.message.startswith("NVLink: link 3: link had to train again") and found.message.endswith("and 5 more")


def test_a_cleared_counter_counts_from_zero(node: Node) -> None:
    """Like E78: a reset of the GPU, or `nvidia-smi nvlink -re`."""
    node.set({(REPLAY, 2): 0})
    assert node.look() == []
    node.set({(REPLAY, 2): 90})
    assert node.look() == []
    node.set({(REPLAY, 2): 150})
    assert len(node.look()) == 1


def test_growth_while_the_agent_was_away_counts(node: Node, tmp_path: Path) -> None:
    kept = node.host.keeps["counters"]
    after = Node(planter(tmp_path / "after"), look=False)
    after.host.memory, after.clock = {"counters": kept}, node.clock
    after.set({(RECOVERY, 2): 8})
    assert brief(after.look()) == [(BDFS[0], "gpu_nvlink_errors", "warn")]


RATE = "NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER"
ERRORS = "NVML_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS"


@pytest.mark.parametrize(
    ("value", "rate"), [(0xFFF, 15e-255), (0x50C, 5e-12), (0x10C, 1e-12), (0xF06, 15e-6), (0x00C, 0.0), (0, 0.0)]
)
def test_reads_a_rate_in_nvmls_form(value: int, rate: float) -> None:
    assert bit_error_rate(value) == pytest.approx(rate, rel=1e-9)


@pytest.mark.parametrize(
    ("rate", "errors", "expected"),
    [
        (0x50C, 900, [(BDFS[0], "gpu_nvlink_ber", "warn")]),
        (0x10C, 900, []),
        (0xFFF, 900, []),
        (0x50C, 7, []),
    ],
)
def test_a_rate_counts_only_while_its_errors_grow(
    node: Node, rate: int, errors: int, expected: list[tuple[str, str, str]]
) -> None:
    """A rate stands for the time since the link came up; what was before is history."""
    node.set({(RATE, 1): 0x50C, (ERRORS, 1): 7})
    assert node.look() == []
    node.set({(RATE, 1): rate, (ERRORS, 1): errors})
    found = node.look()
    assert brief(found) == expected
    if expected:
        assert found[0].message == "NVLink: link 1: bit errors after correction (rate 5.0e-12, limit 1e-12)"


TOTAL = "NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"


def test_a_total_counts_only_where_links_are_not_counted(node: Node) -> None:
    node.set({(TOTAL, -1): 7})
    node.look()
    node.set({(TOTAL, -1): 90000})
    assert node.look() == []
    node.nvml[0].told = {question(POLICY): Told(4, {(TOTAL, -1): 90000})}
    node.look()
    node.nvml[0].told = {question(POLICY): Told(4, {(TOTAL, -1): 95000})}
    (found,) = node.look()
    assert (found.code, found.evidence["links"]) == ("gpu_nvlink_errors", "")


def test_a_site_sets_its_own_limits(plant: Plant, tmp_path: Path) -> None:
    site = tmp_path / "policy.d"
    site.mkdir()
    (site / "a.toml").write_text('version = "s"\n[nvlink.replay]\nlimit = 1\n[nvlink.recovery]\noff = true\n')
    node = Node(plant)
    node.policy = str(site)
    node.set({}, 0)
    node.set({}, 1)
    node.look()
    node.set({(REPLAY, 0): 9, (RECOVERY, 0): 99})
    (found,) = node.look()
    assert found.evidence["count"] == 1


def test_no_links_is_no_matter(plant: Plant) -> None:
    """PCIe cards, L4, L40S."""
    (found,) = run_check(CHECKS["gpu_nvlink_errors"], plant(pci_tree(2, switches=0), nvml=h100s(2))).findings
    assert found.status == "skipped"


def test_a_gpu_that_does_not_answer_hides_no_other(node: Node) -> None:
    node.nvml[0].told = {question(POLICY): NvmlError(Fault.UNKNOWN)}
    node.set({(RECOVERY, 1): 8}, 1)
    assert sorted(brief(node.look())) == [
        (BDFS[0], "gpu_unanswered", "unknown"),
        (BDFS[1], "gpu_nvlink_errors", "warn"),
    ]


def test_a_gpu_in_mig_mode_is_left_alone(node: Node) -> None:
    """E48."""
    node.nvml[0].mig = True
    node.set({(RECOVERY, 1): 99})
    assert node.look() == []


def test_every_field_of_the_table_is_nvmls_own() -> None:
    for name, rule in shipped().nvlink.items():
        for field in (rule.field, rule.errors):
            assert field is None or hasattr(pynvml, field), name
        assert rule.field and rule.means and (rule.limit is None) == (rule.ber is not None), name
        assert rule.unless is None or rule.unless in shipped().nvlink, name


HARDWARE = {"a100": (12, 25.0), "h100": (18, 26.562), "h200": (18, 26.562), "b200": (18, 53.125), "b300": (18, 53.125)}
"""Links of a GPU and their GB/s in one direction, as `nvidia-smi nvlink -s` shows them on healthy machines."""


@pytest.mark.parametrize("name", sorted(profiles()))
def test_a_healthy_node_of_every_profile_is_clean(plant: Plant, name: str) -> None:
    """First rule: boards with and without links, bridged cards, trays of a rack."""
    profile = profiles()[name]
    links, speed = next((told for kind, told in HARDWARE.items() if kind in name and "pcie" not in name), (0, 0.0))
    if name == "h100-nvl":
        links, speed = 12, 26.562
    nvml = h100s(4)
    for index in range(4):
        nvml[index].links = {link: True for link in range(links)} if links else NvmlError(Fault.NOT_SUPPORTED)
        nvml[index].fabric = Fabric(3, 0, 2, "ab" * 16, 0b10101010) if "nvl72" in name else Fabric(0)
        if links:
            nvml[index].told = {
                link_speeds: dict.fromkeys(range(links), speed),
                question(POLICY): Told(links, {(REPLAY, link): 3 for link in range(links)}),
            }
    switches = 4 if name.startswith("hgx") else 0
    host = plant(pci_tree(4, switches=switches) | BOOT | {"/proc/uptime": "5000 1"}, nvml=nvml)
    for check in ("gpu_nvlink", "gpu_nvlink_speed", "gpu_nvlink_errors", "gpu_fabric"):
        options = typed_options(check, profile.checks.get(check, {}), where=name)
        found = run_check(CHECKS[check], host, options).findings
        assert [f for f in found if f.status not in ("ok", "skipped")] == [], check
