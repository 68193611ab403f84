"""The BMC's own thresholds and words are told and never drain, and its log is read from where we first saw it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks import Finding, Host
from checks.bmc.ipmi import entries, sensors
from checks.catalog import load
from checks.host import Ended
from checks.runner import run_check
from deploy.simcluster.tree import controller
from tests.fakes import Plant

Tree = dict[str, str | bytes]
SDR, SEL, INFO = (f"/nodevet-commands/ipmitool_{words}" for words in ("sdr_elist", "sel_elist", "sel_info"))


def found(host: Host, check: str, **options: object) -> list[Finding]:
    seen = list(run_check(load()[check], host, options).findings)
    assert "fail" not in {f.status for f in seen}, "a BMC takes no node out of service"
    return seen


def briefly(seen: list[Finding]) -> list[tuple[str, str]]:
    return [(f.code, f.target) for f in seen]


def bmc(**dead: int) -> Tree:
    return {f"/{path}": text for path, text in controller.bmc(**dead).items()}


def sdr(name: str, state: str, reading: str) -> Tree:
    return {SDR: f"{name:<16} | 41h | {state:<3} |  7.1 | {reading}\n"}


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (bmc(), [("ok", "bmc")]),
        (bmc(dead_supply=2), [("power_supply_bad", "PSU2 Status")]),
        (bmc(dead_fan=4), [("bmc_sensor_critical", "FAN4")]),
        (bmc(dead_supply=1, dead_fan=4), [("power_supply_bad", "PSU1 Status"), ("bmc_sensor_critical", "FAN4")]),
        (sdr("PSU Redundancy", "ok", "Redundancy Lost"), [("power_supply_bad", "PSU Redundancy")]),
        (sdr("PSU Redundancy", "ok", "Fully Redundant"), [("ok", "bmc")]),
        (sdr("PS1", "ok", "Presence detected, Failure detected"), [("power_supply_bad", "PS1")]),
        (sdr("CPU0 Temp", "ucr", "96 degrees C"), [("bmc_sensor_critical", "CPU0 Temp")]),
        (sdr("CPU0 Temp", "unc", "88 degrees C"), [("bmc_sensor_odd", "CPU0 Temp")]),
        (sdr("DIMM Temp", "ns", "No Reading"), [("ok", "bmc")]),
        ({SDR: "Unable to establish a session\n"}, [("bmc_unasked", "bmc")]),
        ({SDR: ""}, [("bmc_unasked", "bmc")]),
        ({}, [("not_applicable", "node")]),
    ],
)
def test_judges_sensors(plant: Plant, tree: Tree, expected: list[tuple[str, str]]) -> None:
    seen = found(plant(tree), "bmc_sensors")
    assert briefly(seen) == expected
    assert {f.blame for f in seen if f.status == "unknown"} <= {"self"}


def test_the_power_drawn_is_kept_where_it_is_measured(plant: Plant) -> None:
    (seen,) = found(plant(bmc()), "bmc_sensors")
    assert (seen.evidence["watts"], seen.evidence["sensors"]) == (2140, 17)


def test_one_that_measures_no_power_is_well(plant: Plant) -> None:
    (seen,) = found(plant(sdr("CPU0 Temp", "ok", "40 degrees C")), "bmc_sensors")
    assert (seen.code, seen.evidence["watts"]) == ("ok", None)


def test_a_named_sensor_is_left_out(plant: Plant) -> None:
    assert briefly(found(plant(bmc(dead_fan=4)), "bmc_sensors", ignore=("FAN4",))) == [("ok", "bmc")]


@pytest.mark.parametrize(
    ("how", "code"),
    [
        (FileNotFoundError("ipmitool"), "not_applicable"),
        (TimeoutError("command ipmitool did not end within 25 s"), "bmc_unasked"),
        (Ended(1, "", "Could not open device at /dev/ipmi0"), "bmc_unasked"),
    ],
)
def test_a_bmc_without_an_answer_says_nothing_of_the_node(
    plant: Plant, monkeypatch: pytest.MonkeyPatch, how: Ended | Exception, code: str
) -> None:
    """Like E122: it hangs as it pleases; the tool is asked to end, never killed, and the node is not blamed."""
    asked: list[float | None] = []

    def outcome(self: Host, argv: list[str], *, timeout: float, grace: float | None = None) -> Ended:
        asked.append(grace)
        if isinstance(how, Exception):
            raise how
        return how

    monkeypatch.setattr(Host, "outcome", outcome)
    for check in ("bmc_sensors", "bmc_log"):
        assert [f.code for f in found(plant(), check)] == [code]
    assert None not in asked


# ---- the log


def log(*events: str, start: int = 1) -> Tree:
    rows = [f"{start + n:4x} | 11/30/2026 | 10:11:{n:02d} | {event}" for n, event in enumerate(events)]
    return {SEL: "\n".join(rows) + "\n", INFO: "Percent Used     : 3%\n"}


AC = "Power Supply PS1 Status | Power Supply AC lost | Asserted"
AC_BACK = "Power Supply PS1 Status | Power Supply AC lost | Deasserted"
ECC = "Memory DIMM_A1 | Uncorrectable ECC | Asserted"
BOOT = "System Event | OEM System boot event | Asserted"


def after(plant: Plant, tree: Tree, memory: Mapping[str, object], **options: object) -> tuple[list[str], object]:
    host = plant(tree)
    host.memory = memory
    seen = found(host, "bmc_log", **options)
    return [f.code for f in seen], host.keeps.get("bmc_log")


@pytest.mark.parametrize(
    ("events", "memory", "codes", "kept"),
    [
        ((AC, ECC), {}, ["ok"], 2),
        ((AC, ECC), {"bmc_log": 2}, ["ok"], 2),
        ((BOOT, AC, ECC), {"bmc_log": 1}, ["bmc_event", "bmc_event"], 1),
        ((BOOT, AC, AC_BACK), {"bmc_log": 1}, ["ok"], 1),
        ((BOOT, AC, AC_BACK, AC), {"bmc_log": 1}, ["bmc_event"], 1),
        ((BOOT, BOOT), {"bmc_log": 1}, ["ok"], 1),
        ((BOOT, ECC), {"bmc_log": 500}, ["bmc_event"], 0),
        ((AC,), {"bmc_log": "garbage"}, ["ok"], 1),
        ((AC,), {"bmc_log": -3}, ["ok"], 1),
    ],
)
def test_only_what_came_since_our_first_look_is_told(
    plant: Plant, events: tuple[str, ...], memory: dict[str, object], codes: list[str], kept: int
) -> None:
    """Like E103: an old entry is no news after a restart of ours; a log that was cleared is read anew."""
    assert after(plant, log(*events), memory) == (codes, kept)


@pytest.mark.parametrize(
    ("event", "means"),
    [
        (ECC, "an uncorrectable memory error"),
        ("Critical Interrupt PCIe | Bus Fatal Error | Asserted", "a fatal error of the bus"),
        ("Critical Interrupt | PCI SERR | Asserted", "a fatal error of the bus"),
        ("Processor CPU0 | IERR | Asserted", "a fault of a processor"),
        ("Processor CPU0 | Thermal Trip | Asserted", "too much heat"),
        ("Temperature Inlet | Upper Critical going high | Asserted | Reading 46 > Threshold 45", "too much heat"),
        (
            "Fan FAN4 | Lower Critical going low  | Asserted | Reading 0",
            "a sensor below its critical limit",
        ),
        ("Power Supply PS1 | Failure detected | Asserted", "a failing power supply"),
        ("Power Supply PSR | Redundancy Lost | Asserted", "that nothing is spare any more"),
        ("Memory | Correctable ECC logging limit reached | Asserted", "too many corrected memory errors"),
    ],
)
def test_knows_what_is_trouble(plant: Plant, event: str, means: str) -> None:
    host = plant(log(BOOT, event, event))
    host.memory = {"bmc_log": 1}
    (seen,) = found(host, "bmc_log")
    assert (seen.evidence["means"], seen.evidence["count"], seen.blame) == (means, 2, "node")


def test_a_full_log_is_told(plant: Plant) -> None:
    tree = log(BOOT) | {INFO: "Entries          : 511\nPercent Used     : 97%\n"}
    assert after(plant, tree, {})[0] == ["bmc_log_full"]


def test_a_named_sensor_is_left_out_of_the_log(plant: Plant) -> None:
    assert after(plant, log(BOOT, ECC), {"bmc_log": 1}, ignore=("Memory DIMM_A1",))[0] == ["ok"]


def test_entries_of_every_form_are_read() -> None:
    text = (
        "   1 |  Pre-Init  |0000000021| Power Supply PS1 | Power Supply AC lost | Asserted\n"
        "   2 |  Pre-Init Time-stamp   | Fan FAN1 | Lower Critical going low\n"
        "  a0 | 11/30/26 | 10:11:12 AM CET | Memory | Uncorrectable ECC | Asserted\n"
        "SEL has no entries\n"
        "  zz | 11/30/2026 | 10:11:12 | Memory | Uncorrectable ECC | Asserted\n"
        "   3\n"
    )
    assert [(e.number, e.sensor, e.event) for e in entries(text)] == [
        (1, "Power Supply PS1", "Power Supply AC lost"),
        (2, "Fan FAN1", "Lower Critical going low"),
        (0xA0, "Memory", "Uncorrectable ECC"),
    ]


@given(st.text(alphabet="0aF| \n:/PreInit-", max_size=200))
def test_no_text_does_more_than_be_left_out(text: str) -> None:
    assert len(entries(text)) <= text.count("\n") + 1
    assert len(sensors(text)) <= text.count("\n") + 1
