"""Whoever keeps the clock is asked in its own words, and a clock that follows only itself is not synchronised."""

from __future__ import annotations

import pytest

from checks import Finding, Host
from checks.catalog import load
from checks.runner import run_check
from tests.fakes import Plant

CHRONY = "/nodevet-commands/chronyc_-c_tracking"
NTPQ = "/nodevet-commands/ntpq_-c_rv"
REST = "10.0.0.1,3,1764580000.0,{0},{0},{0},-12.3,0.001,0.012,0.0004,0.00008,64.2,Normal\n"
NTPD = 'associd=0 status=0615 leap_none, sync_ntp,\nversion="ntpd 4.2.8p18", leap={1}, stratum=3,\noffset={0}, '


def found(host: Host, **options: object) -> list[Finding]:
    return list(run_check(load()["clock"], host, options).findings)


def rv(offset: str, leap: str = "00") -> dict[str, str | bytes]:
    return {NTPQ: NTPD.format(offset, leap) + "frequency=-12.3,\nsys_jitter=0.1\n"}


@pytest.mark.parametrize(
    ("tree", "code"),
    [
        ({CHRONY: "0A000001," + REST.format("0.00002")}, "ok"),
        ({CHRONY: "7F7F0101," + REST.format("0.00002")}, "clock_unsynchronised"),
        ({CHRONY: "50484330," + REST.format("0.00002")}, "ok"),
        (rv("0.021"), "ok"),
        (rv("-1500.5"), "clock_drifting"),
        (rv("300000.000"), "clock_off"),
        (rv("0.0", "11"), "clock_unsynchronised"),
        (rv("nan"), "clock_unasked"),
        ({NTPQ: "ntpq: read: Connection refused\n"}, "clock_unasked"),
        ({CHRONY: "506 Cannot talk to daemon\n", **rv("0.1")}, "ok"),
    ],
)
def test_ntpd_is_asked_where_chrony_does_not_answer(plant: Plant, tree: dict[str, str | bytes], code: str) -> None:
    """Like E118, by the other service: milliseconds are milliseconds, and a clock minutes off is no hardware."""
    (seen,) = found(plant(tree))
    assert seen.code == code
    assert seen.blame in (None, "config", "self")


GOOD = {CHRONY: "0A000001," + REST.format("0.00002")}
LIVE = {"/run/chrony/chronyd.pid": "700\n", "/proc/700/comm": "chronyd\n"}


@pytest.mark.parametrize(
    ("tree", "source", "expected"),
    [
        (LIVE, "chrony", ["ok"]),
        (LIVE, "ntpd", ["clock_source_wrong", "ok"]),
        ({"/run/chrony/chronyd.pid": "700\n"}, "chrony", ["clock_source_wrong", "ok"]),
        ({"/run/chronyd.pid": "../1\n"}, "chrony", ["clock_source_wrong", "ok"]),
        (LIVE | {"/run/systemd/timesync/synchronized": ""}, "chrony", ["clock_source_wrong", "ok"]),
        ({"/run/systemd/timesync/synchronized": ""}, "timesyncd", ["ok"]),
        ({"/run/ptp4lro": ""}, "ptp", ["ok"]),
        ({}, "", ["ok"]),
        ({}, "sundial", ["check_error"]),
    ],
)
def test_one_service_alone_keeps_the_clock(
    plant: Plant, tree: dict[str, str | bytes], source: str, expected: list[str]
) -> None:
    assert [f.code for f in found(plant(GOOD | tree), source=source)] == expected
