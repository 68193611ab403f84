"""A node that comes back green and fails again is held for a person; strikes fade, probation doubles them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from tests.api.controller.fake_slurm import Bench, bench

DAY = timedelta(days=1)


def fails_and_comes_back(b: Bench, code: str = "ecc_old", node: str = "n2") -> str:
    """One drain that ends by clean verifications, and the exit that was shown of it; still drained if a person must."""
    b.report(node, b.lost(code=code))

    async def story() -> str:
        await b.tick()
        await b.tick()
        assert b.slurm.table[node].out_of_service
        [view] = [v for v in b.control.drains() if v.node == node]
        b.report(node, b.fine())
        for _ in range(4):
            await b.tick()
            for order in await b.control.orders("sim", node, 0.0):
                b.report(node, b.fine(), occasion="manual", notes=(f"order:{order.id}",))
                b.control.done((order.id,))
        return view.exit

    return asyncio.run(story())


def out(b: Bench) -> bool:
    return b.slurm.table["n2"].out_of_service


def test_the_third_drain_within_a_week_waits_for_a_person(tmp_path: Path) -> None:
    with bench(tmp_path, probation=0.0) as b:
        for _ in range(2):
            assert "flapping" not in fails_and_comes_back(b)
            assert not out(b)
            b.offset += 2 * DAY
        way = fails_and_comes_back(b)
        assert out(b) and "flapping: drained 3 times for ecc_old" in way and "then nodevet resume" in way
        record = b.core.records.open_drains("sim")["n2"]
        assert record.step == "person"


def test_strikes_fade(tmp_path: Path) -> None:
    with bench(tmp_path, probation=0.0) as b:
        for _ in range(4):
            fails_and_comes_back(b)
            assert not out(b)
            b.offset += 14 * DAY


def test_different_faults_are_counted_for_the_node_as_well(tmp_path: Path) -> None:
    with bench(tmp_path, probation=0.0) as b:
        for code in ("a", "b", "c", "d"):
            fails_and_comes_back(b, code)
            assert not out(b), code
            b.offset += DAY
        assert "drained 5 times for any fault" in fails_and_comes_back(b, "e") and out(b)


def test_another_node_has_no_part_in_it(tmp_path: Path) -> None:
    with bench(tmp_path, probation=0.0) as b:
        for node in ("n1", "n3", "n2"):
            fails_and_comes_back(b, node=node)
            b.offset += DAY
        assert not out(b)


def test_a_fault_on_probation_counts_double(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        fails_and_comes_back(b)
        b.offset += timedelta(hours=2)
        assert "flapping" in fails_and_comes_back(b) and out(b)


def test_a_person_ends_what_flapping_holds(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        fails_and_comes_back(b)
        b.offset += timedelta(hours=2)
        fails_and_comes_back(b)
        asyncio.run(b.control.resume("n2", "alice", verify=False, force=True))
        assert not out(b)


def test_a_foreign_resume_is_no_strike(tmp_path: Path) -> None:
    with bench(tmp_path, probation=0.0) as b:
        for _ in range(2):
            b.report("n2", b.lost(code="gpu_lost"))
            asyncio.run(b.tick())
            b.offset += DAY
            b.slurm.resume("n2")
            b.report("n2", b.fine())
            asyncio.run(b.tick())
        assert "flapping" not in fails_and_comes_back(b, "gpu_lost")


def test_a_node_on_probation_is_looked_at_while_idle_and_then_left(tmp_path: Path) -> None:
    with bench(tmp_path, probation_look=0.0) as b:
        fails_and_comes_back(b)

        async def asked() -> bool:
            await b.tick()
            orders = await b.control.orders("sim", "n2", 0.0)
            b.control.done(tuple(o.id for o in orders))
            return bool(orders)

        assert asyncio.run(asked()) and b.control.metrics()["probation_nodes"] == 1.0
        b.offset += timedelta(seconds=b.core.settings.probation + 60)
        asyncio.run(asked())
        assert not asyncio.run(asked()) and b.control.metrics()["probation_nodes"] == 0.0
        assert any(a.action == "probation ended" for a in b.store.audit_log())


def test_a_node_with_a_job_is_not_looked_at(tmp_path: Path) -> None:
    from dataclasses import replace

    with bench(tmp_path, probation_look=0.0) as b:
        fails_and_comes_back(b)
        asyncio.run(b.tick())
        b.control.done(tuple(o.id for o in asyncio.run(b.control.orders("sim", "n2", 0.0))))
        b.slurm.table["n2"] = replace(b.slurm.table["n2"], base="ALLOCATED")
        asyncio.run(b.tick())
        b.control.done(tuple(o.id for o in asyncio.run(b.control.orders("sim", "n2", 0.0))))
        asyncio.run(b.tick())
        assert asyncio.run(b.control.orders("sim", "n2", 0.0)) == ()
