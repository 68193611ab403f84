"""Uncorrected errors blame the node, corrected ones are judged by how fast they come."""

from __future__ import annotations

from checks import Host
from checks.catalog import load
from checks.judge.context import Context
from checks.judge.decide import decide
from checks.judge.policy import shipped
from checks.runner import run_check
from checks.system.memory_errors import CONTROLLERS, memory_errors
from tests.fakes import Plant


def edac(ue: int, ce: int) -> dict[str, str | bytes]:
    mc = f"{CONTROLLERS}/mc0"
    return {f"{mc}/ue_count": f"{ue}\n", f"{mc}/ce_count": f"{ce}\n", f"{mc}/mc_name": "Intel\n"}


def count(host: Host, ce: int) -> None:
    host.path(f"{CONTROLLERS}/mc0/ce_count").write_text(f"{ce}\n")


def test_a_quiet_controller_is_well(plant: Plant) -> None:
    (found,) = run_check(load()["memory_errors"], plant(edac(0, 0))).findings
    assert found.status == "ok"


def test_an_uncorrected_error_drains_and_waits_for_a_person(plant: Plant) -> None:
    findings = run_check(load()["memory_errors"], plant(edac(1, 3))).findings
    assert [(f.code, f.status, f.blame, f.target) for f in findings] == [("memory_uncorrected", "fail", "node", "MC0")]
    assert decide(findings, shipped(), Context("prolog")).wanted == "drain"
    assert shipped().codes["memory_uncorrected"].resume == "person"


def test_old_corrected_errors_are_kept_as_a_number(plant: Plant) -> None:
    """Half a million since the last boot, and none since we look."""
    host = plant(edac(0, 500_000))
    clock = 0.0
    host.clock = lambda: clock
    for clock in (0.0, 120.0, 240.0):  # noqa: B007 - read by the host
        assert [f.code for f in memory_errors(host)] == ["ok"]


def test_many_within_an_hour_warn_and_the_same_over_a_day_do_not(plant: Plant) -> None:
    host = plant(edac(0, 0))
    now = [0.0]
    host.clock = lambda: now[0]
    list(memory_errors(host))
    for step in range(1, 25):
        now[0] = step * 3600.0
        count(host, step * 90)
        assert [f.code for f in memory_errors(host)] == ["ok"]
    count(host, 24 * 90 + 150)
    now[0] += 60.0
    (found,) = memory_errors(host)
    assert (found.code, found.status, found.evidence["errors"]) == ("memory_corrected_many", "warn", 240)


def test_a_counter_that_went_back_began_anew(plant: Plant) -> None:
    host = plant(edac(0, 10_000))
    list(memory_errors(host))
    count(host, 5)
    assert [f.code for f in memory_errors(host)] == ["ok"]


def test_without_edac_it_does_not_apply(plant: Plant) -> None:
    (found,) = run_check(load()["memory_errors"], plant({})).findings
    assert found.status == "skipped"


def test_a_broken_counter_is_our_trouble(plant: Plant) -> None:
    (found,) = run_check(load()["memory_errors"], plant(edac(0, 0) | {f"{CONTROLLERS}/mc0/ue_count": "?"})).findings
    assert (found.status, found.blame) == ("unknown", "self")


def test_a_controller_that_cannot_be_read_hides_no_other(plant: Plant) -> None:
    """Like E73: what one device does not tell is unknown, and the others are judged."""
    mc = f"{CONTROLLERS}/mc1"
    host = plant({f"{CONTROLLERS}/mc0/ue_count": "\n", f"{mc}/ue_count": "2\n", f"{mc}/ce_count": "0\n"})
    findings = run_check(load()["memory_errors"], host).findings
    assert [(f.code, f.target) for f in findings if f.status == "fail"] == [("memory_uncorrected", "MC1")]
    assert [f.blame for f in findings if f.status == "unknown"] == ["self"]
