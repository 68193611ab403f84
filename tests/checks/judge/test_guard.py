"""Automation stops at its ceilings, floors and rates, and never takes many failing alike for hardware."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone

from hypothesis import given
from hypothesis import strategies as st

from checks.judge.guard import Fleet, GuardLimits, NodeView, PastDrain, authorize, headroom

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=timezone.utc)
LIMITS = GuardLimits()


def fleet(
    count: int,
    *,
    ours: int = 0,
    down: int = 0,
    past: tuple[PastDrain, ...] = (),
    failing: Mapping[str, Mapping[str, datetime]] | None = None,
    promised: frozenset[str] = frozenset(),
) -> Fleet:
    """A cluster n1..nN whose first ``ours`` are drained by us and the next ``down`` by others."""
    nodes = {
        f"n{i + 1}": NodeView(in_service=i >= ours + down, ours=i < ours, groups=("partition:main",))
        for i in range(count)
    }
    return Fleet(now=NOW, nodes=nodes, past=past, failing=failing or {}, promised=promised)


def test_one_sick_node_may_go() -> None:
    assert authorize("n50", "gpu_lost", fleet(100), LIMITS).allowed


def test_a_node_slurm_does_not_know_is_never_drained() -> None:
    assert authorize("zz", "gpu_lost", fleet(100), LIMITS).kind == "unknown_node"


def test_a_hundred_nodes_failing_alike_are_not_hardware() -> None:
    """E65: one rule drained 4,000 and then 11,000 nodes."""
    failing = {"mount_gone": {f"n{i}": NOW - timedelta(seconds=30) for i in range(1, 101)}}
    ruling = authorize("n1", "mount_gone", fleet(1000, failing=failing), LIMITS)
    assert (ruling.allowed, ruling.kind) == (False, "correlated")
    assert "100 nodes show mount_gone" in ruling.why and "at most 50" in ruling.why


def test_the_same_code_spread_over_days_is_not_correlated() -> None:
    failing = {"gpu_lost": {f"n{i}": NOW - timedelta(days=i) for i in range(1, 101)}}
    assert authorize("n500", "gpu_lost", fleet(1000, failing=failing), LIMITS).allowed


def test_the_ceiling_counts_what_is_out_and_what_is_promised() -> None:
    assert authorize("n50", "gpu_lost", fleet(100, ours=9), LIMITS).allowed
    assert authorize("n50", "gpu_lost", fleet(100, ours=10), LIMITS).kind == "ceiling"
    promised = frozenset({"n98", "n99", "n100"})
    assert authorize("n50", "gpu_lost", fleet(100, ours=8, promised=promised), LIMITS).kind == "ceiling"


def test_the_rate_holds_after_resumes() -> None:
    past = tuple(PastDrain(f"n{i}", f"code_{i}", NOW - timedelta(minutes=i)) for i in range(1, 6))
    assert authorize("n50", "gpu_lost", fleet(100, past=past), LIMITS).kind == "rate"


def test_nodes_taken_by_others_count_against_the_floor() -> None:
    assert authorize("n80", "gpu_lost", fleet(100, down=74), LIMITS).allowed
    assert authorize("n80", "gpu_lost", fleet(100, down=75), LIMITS).kind == "floor"


def test_a_partition_keeps_its_floor_though_the_cluster_is_large() -> None:
    nodes = {f"n{i}": NodeView(True, groups=("partition:big",)) for i in range(100)}
    nodes |= {"s1": NodeView(True, groups=("partition:small",)), "s2": NodeView(False, groups=("partition:small",))}
    ruling = authorize("s1", "gpu_lost", Fleet(now=NOW, nodes=nodes), LIMITS)
    assert ruling.kind == "floor" and "partition:small" in ruling.why


def test_four_nodes_may_lose_two_but_not_the_last() -> None:
    assert authorize("n4", "gpu_lost", fleet(4, ours=1, down=1), LIMITS).allowed
    assert not authorize("n4", "gpu_lost", fleet(4, ours=1, down=2), LIMITS).allowed


@given(
    count=st.integers(1, 60),
    ours=st.integers(0, 60),
    down=st.integers(0, 60),
    steps=st.integers(0, 80),
)
def test_however_often_it_is_asked_the_ceilings_hold(count: int, ours: int, down: int, steps: int) -> None:
    """Draining whatever is allowed, again and again, never passes a ceiling that was kept before."""
    ours, down = min(ours, count), min(down, max(0, count - ours))
    view = fleet(count, ours=ours, down=down)
    nodes, past = dict(view.nodes), list(view.past)
    for step in range(steps):
        name = f"n{step % count + 1}"
        now = Fleet(now=NOW, nodes=nodes, past=past)
        if nodes[name].in_service and authorize(name, f"code_{step}", now, LIMITS).allowed:
            nodes[name] = NodeView(False, ours=True, groups=nodes[name].groups)
            past.append(PastDrain(name, f"code_{step}", NOW))
    assert len(past) <= LIMITS.hourly(count)
    assert sum(v.ours for v in nodes.values()) <= max(ours, LIMITS.drained(count))
    if past:
        assert sum(v.in_service for v in nodes.values()) >= LIMITS.floor(count)


@given(count=st.integers(0, 300), ours=st.integers(0, 300), promised=st.integers(0, 300))
def test_leases_never_exceed_what_the_guard_would_allow(count: int, ours: int, promised: int) -> None:
    ours = min(ours, count)
    out = frozenset(f"n{i}" for i in range(count, max(count - promised, 0), -1))
    room = headroom(fleet(count, ours=ours, promised=out), LIMITS)
    assert 0 <= room <= LIMITS.drained(count)
