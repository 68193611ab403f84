"""Groups have ceilings and floors, blocks stay whole, a roll-out is no hardware, and a person may lift the ceilings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from checks.judge.guard import Fleet, GuardLimits, NodeView, Tally, authorize

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=timezone.utc)
LIMITS = GuardLimits()


def racks(count: int, size: int, kind: str = "switch", *, ours: tuple[str, ...] = ()) -> dict[str, NodeView]:
    """``count`` groups of ``size`` nodes n<group>-<number>; ``ours`` are drained by us."""
    names = [(f"n{r}-{i}", f"{kind}:{r}") for r in range(count) for i in range(size)]
    return {n: NodeView(n not in ours, n in ours, (group,)) for n, group in names}


def test_a_rack_has_a_ceiling_of_its_own() -> None:
    nodes = racks(20, 16, ours=("n0-0", "n0-1", "n0-2", "n0-3"))
    ruling = authorize("n0-4", "gpu_lost", Fleet(NOW, nodes), LIMITS)
    assert (
        (ruling.allowed, ruling.kind) == (False, "ceiling") and "switch:0" in ruling.why and "at most 4" in ruling.why
    )
    assert authorize("n1-4", "gpu_lost", Fleet(NOW, nodes), LIMITS).allowed


def test_half_of_the_blocks_stay_whole() -> None:
    """NVL72: a job asks for a whole segment, so one bad node in each of four blocks leaves no block to run in."""
    nodes = racks(4, 18, "block", ours=("n0-0", "n1-0"))
    fleet = Fleet(NOW, nodes, block_size=18)
    ruling = authorize("n2-0", "gpu_lost", fleet, LIMITS)
    assert (ruling.allowed, ruling.kind) == (False, "floor") and "1 of 4 blocks would stay whole" in ruling.why
    assert authorize("n1-1", "gpu_lost", fleet, LIMITS).allowed, "this block is broken already"


def test_spare_nodes_of_a_block_may_go() -> None:
    nodes = racks(4, 18, "block", ours=("n0-0", "n1-0"))
    assert authorize("n2-0", "gpu_lost", Fleet(NOW, nodes, block_size=16), LIMITS).allowed
    assert not authorize("n2-0", "x", Fleet(NOW, nodes, block_size=16), replace(LIMITS, block_size=18)).allowed


def _rolled_out(failing: Mapping[str, str], others: int = 90) -> Fleet:
    nodes = {f"old{i}": NodeView(True, driver="550.54") for i in range(others)}
    nodes |= {f"new{i}": NodeView(True, driver="570.10") for i in range(10)}
    shown = {"nvlink_down": {n: NOW - timedelta(days=i) for i, n in enumerate(failing)}}
    return Fleet(NOW, {**nodes, **{n: NodeView(True, driver=d) for n, d in failing.items()}}, failing=shown)


def test_everything_since_one_driver_is_the_drivers() -> None:
    fleet = _rolled_out({"new0": "570.10", "new1": "570.10", "new2": "570.10"})
    ruling = authorize("new2", "nvlink_down", fleet, LIMITS)
    assert (ruling.allowed, ruling.kind) == (
        False,
        "correlated",
    ) and "570.10, which 10% of the nodes have" in ruling.why


def test_one_node_with_another_driver_or_few_nodes_are_no_roll_out() -> None:
    assert authorize("new1", "nvlink_down", _rolled_out({"new0": "570.10", "new1": "570.10"}), LIMITS).allowed
    mixed = _rolled_out({"new0": "570.10", "new1": "570.10", "new2": "570.10", "old7": "550.54"})
    assert authorize("new1", "nvlink_down", mixed, LIMITS).allowed


def test_what_most_nodes_have_proves_nothing() -> None:
    common = _rolled_out({f"old{i}": "550.54" for i in range(5)})
    assert authorize("old1", "nvlink_down", common, LIMITS).allowed
    unknown = _rolled_out({"new0": "", "new1": "", "new2": ""})
    assert authorize("new1", "nvlink_down", unknown, LIMITS).allowed


def test_an_override_lifts_ceilings_and_correlation_but_never_a_floor() -> None:
    nodes = racks(1, 100, ours=tuple(f"n0-{i}" for i in range(30)))
    fleet = Fleet(NOW, nodes)
    assert not authorize("n0-50", "gpu_lost", fleet, LIMITS).allowed
    assert authorize("n0-50", "gpu_lost", replace(fleet, overridden=frozenset({"gpu_lost"})), LIMITS).allowed
    assert not authorize("n0-50", "other", replace(fleet, overridden=frozenset({"gpu_lost"})), LIMITS).allowed
    low = Fleet(NOW, racks(1, 100, ours=tuple(f"n0-{i}" for i in range(75))), overridden=frozenset({""}))
    assert authorize("n0-90", "gpu_lost", low, LIMITS).kind == "floor"


def test_promises_count_like_drains_in_every_group() -> None:
    tally = Tally(Fleet(NOW, racks(20, 16)), LIMITS)
    for i in range(4):
        assert tally.authorize(f"n0-{i}", "lease").allowed
        tally.promise(f"n0-{i}")
    assert tally.authorize("n0-4", "lease").kind == "ceiling"
    assert tally.authorize("n1-0", "lease").allowed
