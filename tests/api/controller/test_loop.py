"""The controller's loop survives its own failures, one bad node, a hung Slurm, and a fleet that fails as one."""

from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from api.controller import automatic, heart
from checks.judge.guard import GuardLimits
from slurm.job import JobState
from slurm.state import NodeState
from tests.api.controller.fake_slurm import bench


def test_a_database_that_fails_does_not_end_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heart, "AFTER_ERROR_SECONDS", 0.05)
    with bench(tmp_path) as b:
        broken = True

        def fail(*_: object) -> Any:
            if broken:
                raise OSError("No space left on device")
            return {}

        monkeypatch.setattr(b.core.records, "open_drains", fail)
        monkeypatch.setattr(b.store, "open_incident", fail)

        async def story() -> None:
            nonlocal broken
            running = asyncio.create_task(b.control.run())
            await asyncio.sleep(0.4)
            assert not running.done()
            broken = False
            while not b.core.view.states:
                await asyncio.sleep(0.02)
            running.cancel()

        asyncio.run(asyncio.wait_for(story(), 20))


@pytest.mark.parametrize("code", ["GPU LOST", "gpu-lost", "x" * 64 + "é", "Ünï"])
def test_a_code_that_is_no_code_drains_nothing_and_stops_nobody(tmp_path: Path, code: str) -> None:
    with bench(tmp_path) as b:
        b.report("n1", b.lost(code=code))
        b.report("n3", b.lost())
        asyncio.run(b.tick())
        assert [w[1] for w in b.slurm.writes] == ["n3"]
        assert not any(r.node == "n1" for r in b.core.records.listing())


def test_one_node_that_cannot_be_worked_on_stops_no_other(tmp_path: Path) -> None:
    with bench(tmp_path, count=8) as b:
        real = b.store.current_findings

        def fail(cluster: str, node: str) -> Any:
            if node == "n1":
                raise ValueError("row of n1 is damaged")
            return real(cluster, node)

        b.store.current_findings = fail  # type: ignore[method-assign]
        b.report("n1", b.lost())
        b.report("n3", b.lost())
        asyncio.run(b.tick())
        assert [w[1] for w in b.slurm.writes] == ["n3"]
        assert ("n1", "controller_error") in b.incidents()


def test_what_slurm_said_before_it_fell_silent_drains_nothing(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        asyncio.run(b.tick())
        real, b.slurm.nodes = b.slurm.nodes, lambda: b.slurm.down() or b.slurm._raise()  # type: ignore
        asyncio.run(b.tick())
        b.slurm.error, b.slurm.nodes = None, real  # type: ignore[method-assign]
        b.report("n2", b.lost())
        asyncio.run(b.control.tick())
        assert b.slurm.writes == [], "the last bulk read failed, and the next is not due yet"
        asyncio.run(b.tick())
        assert len(b.slurm.writes) == 1


def test_a_finding_without_a_time_drains_nothing(tmp_path: Path) -> None:
    """Nobody can say that it is not of last week."""
    with bench(tmp_path) as b:
        b.report("n2", b.lost(observed_at=None, since=None))
        asyncio.run(b.tick())
        assert b.slurm.writes == []


def test_a_node_that_waits_for_a_mechanic_does_not_make_us_ask_slurm_without_end(tmp_path: Path) -> None:
    """E122: sites limit the rate of questions."""
    with bench(tmp_path) as b:
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        asyncio.run(b.tick())
        asked: list[float] = []
        real = b.slurm.nodes

        def counted() -> dict[str, NodeState]:
            asked.append(0.0)
            return real()

        b.slurm.nodes = counted  # type: ignore[method-assign]

        async def story() -> None:
            for _ in range(30):
                await b.control.tick()

        asyncio.run(story())
        assert len(asked) <= 2


def test_a_fleet_that_fails_as_one_is_looked_at_once_a_round(tmp_path: Path) -> None:
    with bench(tmp_path, count=300) as b:
        for i in range(1, 201):
            b.report(f"n{i}", b.lost())
        calls = {"all_failing": 0, "open_incident": 0}
        for name in calls:
            real = getattr(b.store, name)

            def counted(*args: Any, _real: Any = real, _name: str = name) -> Any:
                calls[_name] += 1
                return _real(*args)

            setattr(b.store, name, counted)
        asyncio.run(b.tick())
        assert b.slurm.writes == [] and ("", "many_gpu_lost") in b.incidents()
        assert calls["all_failing"] <= 4
        calls["open_incident"] = 0
        asyncio.run(b.tick())
        assert calls["open_incident"] <= 10, "what has been said is not said again every round"


def test_an_incident_of_the_guard_ends_with_its_fault(tmp_path: Path) -> None:
    with bench(tmp_path, count=100) as b:
        for i in range(1, 31):
            b.report(f"n{i}", b.lost())
        asyncio.run(b.tick())
        assert ("", "many_gpu_lost") in b.incidents() and ("n1", "guard_closed") not in b.incidents()
        for i in range(1, 31):
            b.report(f"n{i}", b.fine())
        asyncio.run(b.tick())
        assert not {c for _, c in b.incidents()} & {"many_gpu_lost", "guard_closed"}
        assert b.slurm.writes == []


def test_a_hung_slurm_takes_no_thread_from_the_database(tmp_path: Path) -> None:
    with bench(tmp_path, count=60, permit_seconds=1.0) as b:
        asyncio.run(b.tick())
        go = threading.Event()

        def hang(job_id: int) -> JobState | None:
            go.wait(20)
            return None

        b.slurm.job = hang  # type: ignore[method-assign]

        async def story() -> float:
            asked = [asyncio.create_task(b.control.permit(b.request(f"n{i}", i, b.lost()))) for i in range(1, 61)]
            await asyncio.sleep(0.3)
            began = time.monotonic()
            await asyncio.to_thread(b.store.open_incidents)
            took = time.monotonic() - began
            go.set()
            await asyncio.gather(*asked)
            return took

        assert asyncio.run(story()) < 3.0
        assert sum(t.name.startswith("slurm") for t in threading.enumerate()) <= 32


def test_a_preview_of_a_large_fleet_does_not_hold_up_the_loop(tmp_path: Path) -> None:
    with bench(tmp_path, count=4000) as b:

        async def story() -> float:
            worst = 0.0

            async def beat() -> None:
                nonlocal worst
                while True:
                    began = time.monotonic()
                    await asyncio.sleep(0.01)
                    worst = max(worst, time.monotonic() - began)

            heart = asyncio.create_task(beat())
            rows = await b.control.preview("n[1-4000]", "drain")
            await asyncio.sleep(0.05)
            heart.cancel()
            assert len(rows) == 4000 and {r.outcome for r in rows} == {"planned"}
            return worst

        assert asyncio.run(story()) < 3.0


def test_a_node_that_does_not_answer_slurm_serves_nobody(tmp_path: Path) -> None:
    with bench(tmp_path, count=4) as b:
        for name in ("n1", "n2", "n3"):
            b.slurm.table[name] = replace(b.slurm.table[name], flags=frozenset({"NOT_RESPONDING"}))
        b.slurm.table["f1"] = NodeState("f1", "FUTURE", partitions=("main",))
        b.report("n4", b.lost())
        asyncio.run(b.tick())
        assert b.slurm.writes == [] and ("n4", "guard_closed") in b.incidents()


def test_nodes_that_do_not_exist_yet_raise_no_ceiling(tmp_path: Path) -> None:
    with bench(tmp_path, count=10) as b:
        for i in range(1000):
            b.slurm.table[f"f{i}"] = NodeState(f"f{i}", "FUTURE", partitions=("main",))
        for i in range(1, 11):
            b.report(f"n{i}", b.lost(code=f"code_{i}"))
        asyncio.run(b.tick())
        assert len(b.slurm.writes) == 2


def test_what_was_said_about_a_node_ends_with_its_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An incident that never ends is one that nobody reads."""
    monkeypatch.setattr(automatic, "SETTLE_SECONDS", 0.0)
    with bench(tmp_path, guard=GuardLimits(drained_least=0, drained_share=0)) as b:
        asyncio.run(b.tick())
        b.report("n2", b.lost())
        assert not asyncio.run(b.control.permit(b.request("n2", 7, b.lost()))).granted
        asyncio.run(b.tick())
        assert {("n2", "permit_denied"), ("n2", "guard_closed")} <= b.incidents()
        b.report("n2", b.fine())
        asyncio.run(b.tick())
        assert not {c for n, c in b.incidents() if n == "n2"} & {"permit_denied", "guard_closed"}


def test_a_denied_permit_is_not_forgotten_before_its_report_has_come(tmp_path: Path) -> None:
    with bench(tmp_path, guard=GuardLimits(drained_least=0, drained_share=0)) as b:
        asyncio.run(b.tick())
        assert not asyncio.run(b.control.permit(b.request("n2", 7, b.lost()))).granted
        asyncio.run(b.tick())
        assert ("n2", "permit_denied") in b.incidents()
