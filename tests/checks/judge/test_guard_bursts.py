"""Many failing alike stay one incident for as long as they fail, however old that is."""

from __future__ import annotations

from datetime import timedelta

import pytest

from checks.judge.guard import Fleet, GuardLimits, NodeView, PastDrain, Tally, authorize
from tests.checks.judge.test_guard import LIMITS, NOW, fleet


@pytest.mark.parametrize("minutes", [1, 9, 11, 60, 60 * 24 * 3])
def test_a_burst_does_not_become_hardware_by_waiting(minutes: int) -> None:
    """E65: what was denied at first must not be drained piece by piece ten minutes later."""
    began = NOW - timedelta(minutes=minutes)
    failing = {"driver_old": {f"n{i}": began + timedelta(seconds=i) for i in range(1, 101)}}
    view = fleet(1000, failing=failing)
    for node in ("n1", "n50", "n100", "n700"):
        assert authorize(node, "driver_old", view, LIMITS).kind == "correlated", (node, minutes)


def test_a_burst_that_people_took_out_of_service_is_over() -> None:
    began = NOW - timedelta(hours=3)
    failing = {"driver_old": {f"n{i}": began for i in range(1, 61)}}
    assert authorize("n700", "driver_old", fleet(1000, down=60, failing=failing), LIMITS).allowed


def test_drains_of_the_last_minutes_count_with_those_that_still_serve() -> None:
    past = tuple(PastDrain(f"n{i}", "gpu_lost", NOW - timedelta(minutes=5)) for i in (1, 2, 3))
    failing = {"gpu_lost": {"n4": NOW - timedelta(minutes=8), "n5": NOW - timedelta(minutes=1)}}
    limits = GuardLimits(alike_least=4, drained_least=50, hourly_least=50)
    view = fleet(60, ours=3, past=past, failing=failing)
    assert authorize("n5", "gpu_lost", view, limits).kind == "correlated"
    assert authorize("n6", "other_code", view, limits).allowed


def test_an_old_fault_and_a_new_one_are_two() -> None:
    failing = {"gpu_lost": {"n1": NOW - timedelta(days=2), "n2": NOW - timedelta(days=1)}}
    assert authorize("n3", "gpu_lost", fleet(20, failing=failing), LIMITS).allowed


def test_a_tally_answers_as_authorize_does_and_is_counted_once() -> None:
    """A preview of 20,000 nodes must not count 20,000 nodes 20,000 times."""
    nodes = {f"n{i}": NodeView(i % 3 != 0, ours=i % 30 == 0, groups=(f"partition:p{i % 7}",)) for i in range(20_000)}
    view = Fleet(now=NOW, nodes=nodes, promised=frozenset({"n1", "n2"}))
    tally = Tally(view, LIMITS)
    assert {tally.authorize(n, "x").kind for n in nodes} == {"allowed"}
    for node in ("n1", "n3", "zz"):
        assert tally.authorize(node, "x") == authorize(node, "x", view, LIMITS)
