"""A closed guard is loud, a person opens it for a time and a code, and groups and drivers reach it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from checks.judge.guard import GuardLimits
from checks.wire import Batch, Decision, NodeFacts, Report
from slurm.errors import Unreachable
from slurm.topology import Topology, parse_topology
from tests.api.controller.fake_slurm import Bench, bench

ONE = GuardLimits(drained_share=0.0, drained_least=1, alike_least=9)


def closed(b: Bench) -> None:
    """n1 is drained, which is all that the guard allows, and n2 fails too."""
    b.report("n1", b.lost())
    asyncio.run(b.tick())
    b.report("n2", b.lost(code="other"))
    asyncio.run(b.tick())
    assert b.slurm.table["n1"].out_of_service and not b.slurm.table["n2"].out_of_service


def test_a_closed_guard_is_an_incident_and_a_metric_until_it_has_room(tmp_path: Path) -> None:
    with bench(tmp_path, count=8, guard=ONE) as b:
        closed(b)
        assert ("", "guard_frozen") in b.incidents() and b.control.metrics()["guard_closed"] == 1.0
        assert b.control.desk.guard().closed
        asyncio.run(b.control.resume("n1", "alice", verify=False, force=True))
        b.report("n1", b.fine())
        b.report("n2", b.fine())
        b.offset = timedelta(hours=2)
        asyncio.run(b.tick())
        assert ("", "guard_frozen") not in b.incidents() and b.control.metrics()["guard_closed"] == 0.0


def test_an_override_lets_drains_through_is_loud_and_ends_by_itself(tmp_path: Path) -> None:
    with bench(tmp_path, count=8, guard=ONE) as b:
        closed(b)
        asyncio.run(b.control.desk.override("other", 3600.0, "it is all true", "root"))
        asyncio.run(b.tick())
        assert b.slurm.table["n2"].out_of_service and ("", "guard_overridden") in b.incidents()
        assert any((a.actor, a.action, a.subject) == ("root", "guard override", "other") for a in b.store.audit_log())
        b.offset = timedelta(hours=1, minutes=1)
        b.report("n3", b.lost(code="other"))
        asyncio.run(b.tick())
        assert not b.slurm.table["n3"].out_of_service and ("", "guard_overridden") not in b.incidents()


def test_an_override_is_for_its_code_and_can_be_ended(tmp_path: Path) -> None:
    with bench(tmp_path, count=8, guard=ONE) as b:
        closed(b)
        asyncio.run(b.control.desk.override("gpu_lost", 3600.0, "why", "root"))
        asyncio.run(b.tick())
        assert not b.slurm.table["n2"].out_of_service
        assert asyncio.run(b.control.desk.end_override("root")) and not asyncio.run(b.control.desk.end_override("root"))


def test_an_override_outlives_a_restart(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        asyncio.run(b.control.desk.override("", 3600.0, "why", "root"))
    with bench(tmp_path) as again:
        asyncio.run(again.tick())
        assert [o.actor for o in again.control.desk.guard().overrides] == ["root"]


def test_a_switch_has_its_ceiling(tmp_path: Path) -> None:
    limits = GuardLimits(drained_least=9, hourly_least=9, alike_least=9, group_least=1)
    with bench(tmp_path, count=8, guard=limits) as b:
        text = "SwitchName=s0 Level=0 Nodes=n[1-2]\nSwitchName=s1 Level=0 Nodes=n[3-8]\n"
        b.slurm.topology = lambda: parse_topology(text)  # type: ignore[method-assign]
        for node in ("n1", "n2"):
            b.report(node, b.lost())
        asyncio.run(b.tick())
        assert [w[1] for w in b.slurm.writes] == ["n1"]
        assert "switch:s0" in next(i.message for i in b.store.incidents() if i.code == "guard_closed")


def test_a_topology_that_is_not_told_changes_nothing(tmp_path: Path) -> None:
    with bench(tmp_path) as b:

        def fail() -> Topology:
            raise Unreachable("slurm_load_topo error")

        b.slurm.topology = fail  # type: ignore[method-assign]
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        assert b.slurm.table["n2"].out_of_service


def test_everything_since_one_driver_is_one_incident(tmp_path: Path) -> None:
    limits = GuardLimits(drained_least=9, hourly_least=9, alike_least=9, floor_share=0.0, group_least=9)
    with bench(tmp_path, count=30, guard=limits) as b:
        for i in range(1, 31):
            made = Report(
                cluster="sim",
                node=f"n{i}",
                incarnation="a",
                sequence=1000 + i,
                occasion="interval",
                started_at=b.now(),
                seconds=0.1,
                findings=(b.lost(code="nvlink_down"),) if i <= 3 else (),
                decision=Decision(verdict="faulty", wanted="drain"),
                facts=NodeFacts(driver="570.10" if i <= 3 else "550.54"),
            )
            b.store.ingest(Batch(cluster="sim", node=f"n{i}", incarnation="a", reports=(made,)), b.now())
        asyncio.run(b.tick())
        assert b.slurm.writes == [] and ("", "many_nvlink_down") in b.incidents()
        assert "570.10" in next(i.message for i in b.store.incidents() if i.code == "many_nvlink_down")
