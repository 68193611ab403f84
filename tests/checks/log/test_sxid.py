"""Errors of an NVSwitch are judged by number and by the driver's own word, from a table that a site can lay over."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks import CHECKS, CODES
from checks.catalog import load
from checks.judge.policy import shipped
from checks.log.kernel_events import kernel_events
from checks.log.sxid import Sxid, parse_sxid
from tests.checks.log.host_log import Log
from tests.fakes import Plant

SWITCH = "0000:c1:00.0"


class Switches(Log):
    """The same, for what NVSwitches say."""

    def sxid(self, text: str, times: int = 1, switch: str = SWITCH) -> None:
        self.write(*[f"nvidia-nvswitch0: SXid (PCI:{switch}): {text}"] * times)

    def brief(self, policy_dir: str = "/etc/nodevet/policy.d") -> list[tuple[str, str, str]]:
        return [(f.code, f.target, f.status) for f in kernel_events(self.host, policy_dir=policy_dir)]


@pytest.fixture
def log(plant: Plant, tmp_path: Path) -> Switches:
    return Switches(plant, tmp_path / "kmsg")


FATAL = [("nvswitch_fatal", SWITCH, "fail")]
WARN = [("nvswitch_errors", SWITCH, "warn")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("23001, Non-fatal, Link 46 ingress SRC-VC buffer overflow (First)", FATAL),
        ("22003, Minion Halt", FATAL),
        ("23017, Fatal, Link 2 ingress credit parity error (First)", FATAL),
        ("24007, Fatal, Link 46 sourcetrack timeout error (First)", FATAL),
        ("20034, Fatal, Link 30 LTSSM Fault Up", FATAL),
        ("20034, FATAL, Link 30 LTSSM Fault Up", FATAL),
        ("99999, Fatal, Link 30 something new", FATAL),
        ("99999, Non-fatal, Link 30 something new", []),
        ("11004, Non-fatal, Link 36 ingress invalid ACL (First)", []),
        ("12028, Nonfatal, Link 32 egress non-posted PRIV error (First)", []),
        ("20034, Link 30 LTSSM Fault Up", WARN),
        ("10004, Host_thermal_event_start", WARN),
        ("10005, Host_thermal_event_end", []),
        ("28001, Non-fatal, Link 3 Therm Warn Activated", WARN),
        ("28002, Non-fatal, Link 3 Therm Warn Deactivated", []),
        ("28003, Non-fatal, Link 3 Therm Overt Activated", WARN),
        ("28004, Non-fatal, Link 3 Therm Overt Deactivated", []),
        ("28005, Non-fatal, Link 3 Therm Heartbeat Shutdown", WARN),
        ("11004, Severity 0 Engine instance 42 Sub-engine instance 00", []),
        ("24007, Severity 1 Engine instance 42 Sub-engine instance 00", []),
        ("24007, Data {0x00000001, 0x00000000}", []),
    ],
)
def test_one_error_is_judged_by_number_and_word(log: Switches, text: str, expected: list[tuple[str, str, str]]) -> None:
    """Like E103: always fatal by number, else by the driver's word; what only says more is no error of its own."""
    log.sxid(text)
    assert log.brief() == expected


def test_many_that_were_put_right_are_a_warning(log: Switches) -> None:
    log.sxid("20001, Non-fatal, Link 46 TX Replay Error", 19)
    log.sxid("20001, Severity 0 Engine instance 46 Sub-engine instance 00", 19)
    assert log.brief() == []
    log.sxid("20009, Non-fatal, Link 04 RX Short Error Rate")
    assert log.brief() == WARN


def test_the_end_of_a_thermal_event_ends_it(log: Switches) -> None:
    log.sxid("10004, Host_thermal_event_start")
    log.sxid("10004, Host_thermal_event_start", switch="0000:c2:00.0")
    log.sxid("10005, Host_thermal_event_end")
    assert log.brief() == [("nvswitch_errors", "0000:c2:00.0", "warn")]


def test_a_transceiver_that_cooled_down_ends_its_own_warning_only(log: Switches) -> None:
    """The end of one of three thermal events leaves the other two standing."""
    for number in ("10004, Host_thermal_event_start", "28001, Non-fatal, Warn", "28003, Non-fatal, Overt"):
        log.sxid(number)
    assert log.brief() == WARN * 3
    log.sxid("28002, Non-fatal, Link 3 Therm Warn Deactivated")
    assert log.brief() == WARN * 2
    log.sxid("28004, Non-fatal, Link 3 Therm Overt Deactivated")
    assert log.brief() == WARN


def test_the_reason_names_which_error_it_was(log: Switches) -> None:
    log.sxid("24007, Fatal, Link 46 sourcetrack timeout error (First)")
    (found,) = log.found()
    assert found.message == "a fatal SXid, by the driver's own word (24007, sourcetrack timeout)"


def test_a_fatal_error_stands_for_a_day(log: Switches) -> None:
    """Nothing that can be asked tells that the links are well again; a new boot does."""
    log.sxid("20034, Fatal, Link 30 LTSSM Fault Up")
    log.clock += 20 * 3600.0
    assert log.brief() == FATAL


@pytest.mark.parametrize("priority", [12, 8 + 3])
def test_a_users_line_is_none(log: Switches, priority: int) -> None:
    """E101."""
    log.write(f"nvidia-nvswitch0: SXid (PCI:{SWITCH}): 22003, Fatal, forged", priority=priority)
    assert log.brief() == []


def test_a_site_lays_its_own_over_one_number(log: Switches, tmp_path: Path) -> None:
    """E39: for one number, for a kind, and for what is not wanted at all."""
    site = tmp_path / "policy.d"
    site.mkdir()
    (site / "a.toml").write_text(
        'version = "s"\n[sxid."20034"]\nstatus = "warn"\n[sxid."22003"]\noff = true\n'
        '[sxid."20001"]\nat_least = 2\n[sxid."30000"]\nkind = "always"\n'
    )
    log.sxid("20034, Fatal, Link 30 LTSSM Fault Up")
    assert log.brief(str(site)) == [("nvswitch_fatal", SWITCH, "warn")]
    log.sxid("22003, Fatal, Minion Halt")
    assert len(log.brief(str(site))) == 1
    log.sxid("20001, Non-fatal, Link 1 TX Replay Error", 2, switch="0000:c2:00.0")
    log.sxid("30000, Non-fatal, Link 1 x", switch="0000:c3:00.0")
    assert log.brief(str(site))[1:] == [
        ("nvswitch_errors", "0000:c2:00.0", "warn"),
        ("nvswitch_fatal", "0000:c3:00.0", "fail"),
    ]


def test_every_entry_of_the_table_can_be_used() -> None:
    load()
    table = shipped().sxid
    for name, rule in table.items():
        assert rule.kind is None or rule.kind in table, name
        assert rule.ends is None or rule.ends in table, name
        assert (name.isdecimal() and rule.name) or rule.off or CODES[rule.code or ""] in CHECKS["kernel_events"].codes
    assert {n for n, r in table.items() if r.kind == "always"} == {
        "12020", "22003", "22011", *(str(n) for n in range(23001, 23018))
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, x", Sxid("0000:05:00.0", "12028", "nonfatal")),
        ("nvidia-nvswitch0: SXid (PCI:0000:C1:00): 22003", Sxid(SWITCH, "22003", "unsaid")),
        ("nvidia-nvswitch0: SXid (0000:c1:00.0): 22003, Fatal", Sxid(SWITCH, "22003", "fatal")),
        ("nvidia-nvswitch0: SXid (PCI:zz): 22003, Fatal", None),
        ("x nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 22003, Fatal", None),
        ("nvidia-nvswitch0: using MSI", None),
    ],
)
def test_reads_the_forms(text: str, expected: Sxid | None) -> None:
    assert parse_sxid(text) == expected


@given(st.text(max_size=200))
def test_no_text_makes_it_fail(text: str) -> None:
    found = parse_sxid(f"nvidia-nvswitch0: SXid (PCI:{SWITCH}): 20034{text}")
    assert found is None or found.bdf == SWITCH
