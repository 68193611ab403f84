"""A node comes back only after clean verifications, only if ours, and a person's drain only when a person asks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from tests.api.controller.fake_slurm import Bench, bench


async def answer_order(b: Bench, node: str, *, clean: bool = True) -> bool:
    """Play the agent: take the verify order and report; False when there was none."""
    orders = await b.control.orders("sim", node, 0.0)
    for order in orders:
        b.report(node, b.fine() if clean else b.lost(), occasion="manual", notes=(f"order:{order.id}",))
        b.control.done((order.id,))
    return bool(orders)


def drained(b: Bench, node: str = "n2", code: str = "gpu_lost") -> None:
    b.report(node, b.lost(code=code))
    asyncio.run(b.tick())
    asyncio.run(b.tick())
    assert b.slurm.table[node].out_of_service


def test_two_clean_verifications_bring_it_back(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drained(b)

        async def story() -> None:
            await b.tick()
            assert not await answer_order(b, "n2"), "no verification while the fault is there"
            b.report("n2", b.fine())
            await b.tick()
            assert await answer_order(b, "n2")
            await b.tick()
            assert b.slurm.table["n2"].out_of_service, "one clean round is not enough"
            assert await answer_order(b, "n2")
            await b.tick()

        asyncio.run(story())
        assert not b.slurm.table["n2"].out_of_service
        last = b.core.records.last("sim", "n2")
        assert last and last.state == "resumed"


def test_a_bad_round_starts_the_count_again(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drained(b)

        async def story() -> None:
            b.report("n2", b.fine())
            await b.tick()
            await answer_order(b, "n2")
            await b.tick()
            await answer_order(b, "n2", clean=False)
            for _ in range(3):
                await b.tick()

        asyncio.run(story())
        record = b.core.records.open_drains("sim")["n2"]
        assert (record.rounds, record.state) == (0, "drained") and b.slurm.table["n2"].out_of_service


def test_a_green_pass_alone_never_resumes(tmp_path: Path) -> None:
    """E106: a node with a replaced GPU went back 54 s after the fix, with no burn-in."""
    with bench(tmp_path) as b:
        drained(b, code="part_broken")

        async def story() -> None:
            b.report("n2", b.fine())
            for _ in range(4):
                await b.tick()
            assert not await answer_order(b, "n2")

        asyncio.run(story())
        assert b.slurm.table["n2"].out_of_service


def test_a_person_asks_and_verification_decides(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drained(b, code="part_broken")

        async def story(clean: bool) -> None:
            rows = await b.control.resume("n2", "alice")
            assert rows[0].outcome == "planned"
            for _ in range(2):
                await b.tick()
                await answer_order(b, "n2", clean=clean)
            await b.tick()

        asyncio.run(story(clean=False))
        assert b.core.records.open_drains("sim").keys() == {"n2"}
        b.report("n2", b.fine())
        asyncio.run(story(clean=True))
        assert not b.slurm.table["n2"].out_of_service
        assert any(a.actor == "alice" and a.action == "resume" for a in b.store.audit_log())


def test_a_node_with_jobs_is_not_verified(tmp_path: Path) -> None:
    """E10: drained means idle, DRAIN and not COMPLETING."""
    with bench(tmp_path) as b:
        b.slurm.table["n2"] = replace(b.slurm.table["n2"], base="MIXED")
        b.report("n2", b.lost())

        async def story() -> None:
            await b.tick()
            b.report("n2", b.fine())
            await b.tick()
            await b.tick()
            assert not await answer_order(b, "n2")
            b.slurm.table["n2"] = replace(b.slurm.table["n2"], base="IDLE")
            await b.tick()
            assert await answer_order(b, "n2")

        asyncio.run(story())


def test_a_verification_that_nobody_answers_leaves_the_node_drained_and_says_so(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drained(b)

        async def story() -> None:
            b.report("n2", b.fine())
            await b.tick()
            b.offset = timedelta(seconds=b.core.settings.verify_timeout + 5)
            await b.tick()

        asyncio.run(story())
        assert b.slurm.table["n2"].out_of_service and ("n2", "verify_silent") in b.incidents()


def test_a_reason_changed_between_the_last_read_and_the_resume_stops_it(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drained(b)

        async def story() -> None:
            b.report("n2", b.fine())
            await b.tick()
            await answer_order(b, "n2")
            await b.tick()
            await answer_order(b, "n2")
            b.slurm.set("n2", "reason", "bob is inside the rack", user="root")
            b.slurm.writes.clear()
            b.control._read_at = float("inf")  # the cached view still shows our reason
            from api.controller.verify import verify

            await verify(b.core)

        asyncio.run(story())
        assert b.slurm.writes == [] and b.slurm.table["n2"].out_of_service


def test_a_persons_drain_through_us_is_never_resumed_by_itself(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        asyncio.run(b.tick())
        rows = asyncio.run(b.control.drain("n3", "swap the fan", "alice"))
        assert [r.outcome for r in rows] == ["done"]
        reason = b.slurm.table["n3"].reason
        assert reason and reason.text.startswith("nodevet/person: swap the fan [")

        async def story() -> None:
            b.report("n3", b.fine())
            for _ in range(4):
                await b.tick()
                assert not await answer_order(b, "n3")

        asyncio.run(story())
        assert b.slurm.table["n3"].out_of_service
        assert asyncio.run(b.control.resume("n3", "alice", verify=False))[0].outcome == "done"
        assert not b.slurm.table["n3"].out_of_service


def test_without_verification_a_faulty_node_needs_force(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drained(b)
        assert asyncio.run(b.control.resume("n2", "alice", verify=False))[0].outcome == "refused"
        assert asyncio.run(b.control.resume("n2", "alice", verify=False, force=True))[0].outcome == "done"


def test_a_foreign_drain_is_neither_resumed_nor_drained_over(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        b.slurm.set("n1", "drain", "Kill task failed")
        b.slurm.set("n2", "drain", "nodevet: gpu_lost forged by hand [abcdef]", user="root")
        b.slurm.writes.clear()
        asyncio.run(b.tick())
        rows = asyncio.run(b.control.resume("n[1-2]", "alice", verify=False, force=True))
        assert [r.outcome for r in rows] == ["refused", "refused"]
        assert [r.outcome for r in asyncio.run(b.control.drain("n[1-2]", "mine", "alice"))] == [
            "unchanged",
            "unchanged",
        ]
        assert b.slurm.writes == []


def test_every_drain_shows_its_way_out(tmp_path: Path) -> None:
    """Rule 11."""
    with bench(tmp_path, count=6) as b:
        b.slurm.set("n1", "drain", "Kill task failed")
        b.slurm.set("n2", "drain", "bob", user="root")
        drained(b, "n3")
        drained(b, "n4", code="part_broken")
        asyncio.run(b.control.drain("n5", "fan", "alice"))
        views = {v.node: v for v in b.control.drains()}
        assert set(views) == {"n1", "n2", "n3", "n4", "n5"}
        assert all(v.exit for v in views.values())
        assert "clean verifications" in views["n3"].exit and "nodevet resume" in views["n4"].exit


def test_a_preview_changes_nothing_and_names_what_would_happen(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        b.slurm.set("n2", "drain", "bob", user="root")
        b.slurm.writes.clear()
        rows = asyncio.run(b.control.preview("n[1-2],zz", "drain"))
        assert [(r.node, r.outcome) for r in rows] == [("n1", "planned"), ("n2", "unchanged"), ("zz", "refused")]
        assert b.slurm.writes == [] and b.core.records.listing() == []
