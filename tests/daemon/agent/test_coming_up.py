"""A node that boots or has its driver updated is not drained for what passes with it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from checks.declare import ok
from checks.judge.context import Context
from checks.judge.decide import decide
from checks.judge.policy import shipped
from checks.wire import Finding, Occasion
from daemon.agent.findings import SETTLE, Findings, settled_at
from tests.daemon.agent.test_rounds import Clocks, instance, outcome

COMING_UP = ("gpu_nvlink_down", "gpu_driver_not_loaded", "ib_port_down", "mount_absent", "service_failed")


def _wanted(store: Findings) -> set[str]:
    occasions: tuple[Occasion, ...] = ("prolog", "interval")
    return {decide(store.current(), shipped(), Context(occasion=each)).wanted for each in occasions}


@pytest.mark.parametrize("name", COMING_UP)
def test_a_node_that_still_boots_is_not_drained_and_one_that_never_comes_up_is(name: str) -> None:
    clocks, probe = Clocks(), instance()
    store = Findings(lambda: clocks.seconds, lambda: clocks.wall, settled_at=clocks.seconds + SETTLE)
    fault = Finding(code=name, status="fail", blame="node", target="gpu0")
    for _ in range(10):
        store.take(probe, outcome(clocks, fault))
        assert _wanted(store) == {"admit"}
        clocks.pass_(29.9)
    clocks.pass_(1.0)
    store.take(probe, outcome(clocks, fault))
    assert _wanted(store) == ({"drain"} if name == "service_failed" else {"refuse", "drain"})


def test_what_cannot_pass_with_the_boot_is_told_at_once() -> None:
    clocks = Clocks()
    store = Findings(lambda: clocks.seconds, lambda: clocks.wall, settled_at=clocks.seconds + SETTLE)
    store.take(instance(), outcome(clocks, Finding(code="gpu_lost", status="fail", blame="node", target="gpu0")))
    assert _wanted(store) == {"refuse", "drain"}


def test_when_a_node_has_come_up_follows_from_its_uptime(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    assert settled_at(str(tmp_path)) == float("-inf"), "no uptime is told"
    (tmp_path / "proc/uptime").write_text("4000.00 1.00\n")
    assert settled_at(str(tmp_path)) == float("-inf")
    (tmp_path / "proc/uptime").write_text("100.00 1.00\n")
    before = time.monotonic()
    assert before + SETTLE - 100 <= settled_at(str(tmp_path)) <= time.monotonic() + SETTLE - 100


@pytest.mark.parametrize("name", ["gpu_driver_mismatch", "gpu_driver_not_loaded", "gpu_driver_library"])
def test_a_driver_that_is_being_updated_drains_nothing_and_one_that_stays_so_does(name: str) -> None:
    clocks, probe = Clocks(), instance(interval=60.0)
    store = clocks.store()
    fault = Finding(code=name, status="fail", blame="node", target="node")
    for found in (fault, ok("node"), fault):
        store.take(probe, outcome(clocks, found))
        assert _wanted(store) == {"admit"}
        clocks.pass_(60)
    store.take(probe, outcome(clocks, fault))
    assert _wanted(store) == {"refuse", "drain"}
