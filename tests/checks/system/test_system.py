"""Memory, clock and services are judged by the profile, and an absent tool is never the node's fault."""

from __future__ import annotations

import pytest

from checks import CHECKS, Finding, Host
from checks.runner import run_check
from checks.system import units
from checks.system.clock import clock
from checks.system.memory import memory
from checks.system.services import services
from tests.fakes import Plant

MEMINFO = (
    "MemTotal:       {total} kB\nMemFree:        1024 kB\nHardwareCorrupted:     {bad} kB\nHugePages_Total:       0\n"
)
CHRONY = "/nodevet-commands/chronyc_-c_tracking"
UNIT = "/nodevet-commands/systemctl_show_-p_LoadState,ActiveState,SubState_{}"
GIB = 1024 * 1024


def only(host: Host, check: str, **options: object) -> Finding:
    (found,) = run_check(CHECKS[check], host, options).findings
    return found


@pytest.mark.parametrize(
    ("total", "bad", "expected"),
    [
        (2000 * GIB, 0, ["ok"]),
        (1965 * GIB, 0, ["ok"]),
        (1872 * GIB, 0, ["memory_low"]),
        (2000 * GIB, 8, ["ok", "memory_corrupted"]),
    ],
)
def test_judges_memory_against_the_profile(plant: Plant, total: int, bad: int, expected: list[str]) -> None:
    host = plant({"/proc/meminfo": MEMINFO.format(total=total, bad=bad)})
    assert [f.code for f in memory(host, min_gib=2000)] == expected


@pytest.mark.parametrize("text", ["", "garbage\x00\n:\n", "MemTotal: many kB\n", "MemTotal:\n"])
def test_unreadable_memory_figures_are_our_trouble(plant: Plant, text: str) -> None:
    """E23: "RAM 0 kB" once was a full /tmp."""
    found = only(plant({"/proc/meminfo": text}), "memory", min_gib=2000.0)
    assert (found.status, found.blame) == ("unknown", "self")


def tracking(offset: str, leap: str = "Normal") -> str:
    return f"A29FC87B,ntp.example,3,1764580000.1,{offset},0.00001,0.00002,-12.1,0.01,0.05,0.02,0.001,64.2,{leap}\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (tracking("0.000012"), ("ok", "ok", None)),
        (tracking("-2.5"), ("clock_drifting", "warn", "config")),
        (tracking("300.0"), ("clock_off", "fail", "config")),
        (tracking("-600.0"), ("clock_off", "fail", "config")),
        (tracking("0.0", "Not synchronised"), ("clock_unsynchronised", "warn", "config")),
        (tracking("nan"), ("clock_unasked", "unknown", "self")),
        ("506 Cannot talk to daemon\n", ("clock_unasked", "unknown", "self")),
        ("", ("clock_unasked", "unknown", "self")),
        (tracking("soon"), ("clock_unasked", "unknown", "self")),
        (None, ("clock_unasked", "unknown", "self")),
    ],
)
def test_judges_the_clock(plant: Plant, text: str | None, expected: tuple[str, str, str | None]) -> None:
    """E106, E118: a clock minutes ahead is a matter of settings, never of hardware, and has its own code."""
    (found,) = clock(plant({} if text is None else {CHRONY: text}))
    assert (found.code, found.status, found.blame) == expected


def test_asks_the_kernel_of_this_very_machine() -> None:
    assert {f.code for f in clock(Host())} <= {"ok", "clock_unsynchronised", "clock_drifting", "clock_off"}


@pytest.mark.parametrize(
    ("load", "active", "sub", "expected"),
    [
        ("loaded", "active", "running", None),
        ("loaded", "failed", "failed", ("service_failed", "fail", "node")),
        ("loaded", "inactive", "dead", ("service_failed", "fail", "node")),
        ("loaded", "activating", "start", ("service_starting", "warn", "node")),
        ("loaded", "refreshing", "refresh", ("service_starting", "warn", "node")),
        ("loaded", "activating", "auto-restart", ("service_failed", "fail", "node")),
        ("loaded", "activating", "auto-restart-queued", ("service_failed", "fail", "node")),
        ("bad-setting", "inactive", "dead", ("service_failed", "fail", "node")),
        ("masked", "inactive", "dead", ("service_masked", "warn", "config")),
        ("masked", "active", "running", None),
        ("not-found", "inactive", "dead", ("service_absent", "skipped", "config")),
    ],
)
def test_judges_a_service(
    plant: Plant, load: str, active: str, sub: str, expected: tuple[str, str, str] | None
) -> None:
    """E22: an absent or masked unit is no failed unit; one that ends over and over is."""
    host = plant({UNIT.format("munge.service"): f"LoadState={load}\nActiveState={active}\nSubState={sub}\n"})
    found = [(f.code, f.status, f.blame) for f in services(host, units=("munge.service",))]
    assert found == ([expected] if expected else [])


def test_one_unanswered_service_hides_no_other(plant: Plant) -> None:
    """E52: an answer of another shape is unknown, not passed."""
    host = plant(
        {
            UNIT.format("a.service"): '{"status": "FAIL"}',
            UNIT.format("c.service"): "LoadState=loaded\nActiveState=failed\nSubState=failed\n",
        }
    )
    found = [(f.target, f.status) for f in services(host, units=("a.service", "b.service", "c.service"))]
    assert found == [("a.service", "unknown"), ("b.service", "unknown"), ("c.service", "fail")]


def test_no_service_is_required_by_default(plant: Plant) -> None:
    """E22: a default that demands docker drains every node at first run."""
    assert only(plant(), "services").status == "skipped"


def test_a_unit_that_cannot_be_loaded_says_so(plant: Plant) -> None:
    host = plant({UNIT.format("a.service"): "LoadState=bad-setting\nActiveState=inactive\nSubState=dead\n"})
    (found,) = services(host, units=("a.service",))
    assert found.message == "unit a.service is inactive (dead, bad-setting), expected active"


class Unbooted(Host):
    """A container with systemctl in it: nothing answers it, and systemd does not run the node."""

    def run(self, argv: object, *, timeout: float = 2.0) -> str:
        raise OSError("command systemctl ended with 1: b'System has not been booted with systemd as init system'")


def test_a_container_with_systemctl_has_no_systemd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Like E22: what cannot be asked here is no failed service and no defect of ours to report."""
    monkeypatch.setattr(units, "BOOTED", "/nonexistent/systemd")
    assert only(Unbooted(), "services", units=("munge.service",)).status == "skipped"


def test_a_systemd_that_does_not_answer_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "BOOTED", "/")
    found = only(Unbooted(), "services", units=("munge.service",))
    assert (found.code, found.status, found.blame) == ("service_unasked", "unknown", "self")


def test_later_chrony_may_tell_more(plant: Plant) -> None:
    """Like E118: fields added behind the fourteenth change nothing."""
    (found,) = clock(plant({CHRONY: tracking("300.0").rstrip() + ",0.1,more\n"}))
    assert (found.code, found.evidence["leap"]) == ("clock_off", "Normal")
