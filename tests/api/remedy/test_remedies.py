"""From a drained node with a fault to one that is mended, verified and back, and every way in which that fails."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from checks.wire import Outcome
from slurm.errors import Unreachable
from slurm.reason import compose
from slurm.state import Reason
from tests.api.remedy.mending import GPU, Mending, begun, mending, on, play


def test_a_gpu_that_wants_a_reset_is_reset_verified_and_back(tmp_path: Path) -> None:
    async def scene(mend: Mending) -> None:
        await begun(mend)
        order = mend.reset_order()
        assert order.gpus == (GPU,)
        mend.tells(order, "running")
        await mend.tick()
        mend.tells(order, "done", "reset in 2.0 s")
        mend.later(5)
        mend.bench.report("n1", mend.bench.fine())
        for _ in range(6):
            await mend.tick()
            for asked in [o for o in mend.orders() if o.kind == "verify"]:
                mend.later(1)
                mend.bench.report("n1", mend.bench.fine(), notes=(f"order:{asked.id}",))
        assert mend.states() == [("reset-gpu", "done")]
        assert not mend.slurm.table["n1"].out_of_service

    play(tmp_path, scene)


def test_a_node_is_not_given_back_while_it_is_worked_at(tmp_path: Path) -> None:
    async def scene(mend: Mending) -> None:
        await begun(mend)
        mend.bench.report("n1", mend.bench.fine())
        for _ in range(3):
            await mend.tick()
        mend.anew(on())
        (row,) = await mend.bench.control.resume("n1", "ann", verify=False, force=True)
        assert (row.outcome, "reset-gpu is under way" in row.why) == ("refused", True)
        (row,) = await mend.bench.control.desk.accept("n1", 600.0, "needed", "ann")
        assert row.outcome != "done"
        assert mend.slurm.table["n1"].drained

    play(tmp_path, scene)


@pytest.mark.parametrize(
    ("base", "flags"),
    [("ALLOCATED", {"DRAIN"}), ("MIXED", {"DRAIN"}), ("IDLE", {"DRAIN", "COMPLETING"}), ("DOWN", set())],
)
def test_e10_a_node_that_is_not_drained_to_the_end_is_never_disturbed(
    tmp_path: Path, base: str, flags: set[str]
) -> None:
    """E10: DRAIN+ALLOCATED and DRAIN+MIXED read as drained cost a user's job."""

    async def scene() -> None:
        with mending(tmp_path) as mend:
            await mend.broken()
            mend.anew(on())
            mend.heard()
            await mend.remedies.planner.propose()
            assert mend.states() == [("reset-gpu", "planned")]
            state = mend.slurm.table["n1"]
            mend.slurm.table["n1"] = replace(state, base=base, flags=frozenset(flags))
            for _ in range(3):
                await mend.tick()
            assert mend.states() == [("reset-gpu", "planned")]
            assert (await mend.remedies.ask("n1", "reset-gpu", (), "ann")).outcome == "refused"
            mend.later(2000)
            await mend.tick()
            assert mend.states() == [("reset-gpu", "expired")]

    asyncio.run(scene())


@pytest.mark.parametrize("text", ["Kill task failed", "rma 4711", compose("gpu_reset_required", "x", token="ab12cd34")])
def test_a_reason_that_is_not_that_of_our_drain_protects_the_node(tmp_path: Path, text: str) -> None:
    async def scene() -> None:
        with mending(tmp_path) as mend:
            await mend.broken()
            mend.anew(on())
            mend.heard()
            await mend.remedies.planner.propose()
            mend.slurm.table["n1"] = replace(mend.slurm.table["n1"], reason=Reason(text, "ann"))
            await mend.tick()
            assert mend.states() == [("reset-gpu", "planned")]
            row = await mend.remedies.ask("n1", "reboot", (), "ann")
            assert row.outcome == "refused" and mend.reboots() == []

    asyncio.run(scene())


def test_what_a_person_drained_is_left_to_persons(tmp_path: Path) -> None:
    async def scene(mend: Mending) -> None:
        mend.bench.report("n1", mend.bench.fine())
        await mend.bench.control.drain("n1", "fan is noisy", "ann")
        mend.bench.report("n1", mend.fault())
        for _ in range(3):
            await mend.tick()
        assert mend.states() == []
        row = await mend.remedies.ask("n1", "reset-gpu", (GPU,), "ann")
        assert row.outcome == "planned", row
        await mend.tick()
        assert mend.reset_order().gpus == (GPU,)

    play(tmp_path, scene)


def test_e42_a_reset_that_did_not_help_is_followed_by_a_reboot_and_then_by_a_person(tmp_path: Path) -> None:
    """E42: a failed reset is no repair; and no step is taken twice."""

    async def scene(mend: Mending) -> None:
        await begun(mend)
        mend.tells(mend.reset_order(), "failed", "nvidia-smi ended with 255")
        await mend.tick()
        mend.later(60)
        mend.bench.report("n1", mend.fault())
        await mend.tick()
        await mend.tick()
        assert mend.states() == [("reset-gpu", "failed"), ("reboot", "running")]
        assert mend.reboots() == ["n1"]
        mend.booted("n1", mend.fault())
        await mend.tick()
        assert mend.states()[-1] == ("reboot", "done")
        for _ in range(3):
            mend.later(60)
            mend.bench.report("n1", mend.fault(), boot_id="boot-b")
            await mend.tick()
        assert len(mend.states()) == 2 and mend.reboots() == ["n1"]
        assert ("n1", "remedy_needs_person") in mend.bench.incidents()
        assert "a person" in mend.why()

    play(tmp_path, scene, per_node_per_day=10)


def test_e115_a_refused_reset_is_busy_and_is_asked_again_later(tmp_path: Path) -> None:
    """E115: "In use by another client" says that somebody holds the GPU, not that the GPU cannot be reset."""

    async def scene(mend: Mending) -> None:
        await begun(mend)
        mend.tells(mend.reset_order(), "busy", "In use by another client")
        await mend.tick()
        mend.later(60)
        mend.bench.report("n1", mend.fault())
        await mend.tick()
        assert mend.states() == [("reset-gpu", "busy")] and "busy" in mend.why()
        mend.later(700)
        mend.bench.report("n1", mend.fault())
        await mend.tick()
        await mend.tick()
        assert mend.states() == [("reset-gpu", "busy"), ("reset-gpu", "running")]
        assert ("n1", "remedy_failed") not in mend.bench.incidents()

    play(tmp_path, scene, per_node_per_day=10)


def test_what_was_seen_before_a_remedy_ended_leads_to_no_other(tmp_path: Path) -> None:
    async def scene(mend: Mending) -> None:
        await begun(mend)
        mend.tells(mend.reset_order(), "failed", "nvidia-smi ended with 255")
        for _ in range(3):
            await mend.tick()
        assert mend.states() == [("reset-gpu", "failed")]
        assert "nothing has been looked at since" in mend.why()

    play(tmp_path, scene, per_node_per_day=10)


@pytest.mark.parametrize("told", ["hung", "lost", "failed", "refused"])
def test_an_order_that_went_wrong_is_loud(tmp_path: Path, told: Outcome) -> None:
    async def scene(mend: Mending) -> None:
        await begun(mend)
        mend.tells(mend.reset_order(), told, "words")
        await mend.tick()
        assert mend.states()[0] == ("reset-gpu", {"lost": "unknown"}.get(told, told))
        assert ("n1", "remedy_failed") in mend.bench.incidents()

    play(tmp_path, scene)


def test_e104_old_events_and_a_restart_lead_to_nothing_where_the_present_check_is_clean(tmp_path: Path) -> None:
    """E104: a remediation that started anew replayed old events and rebooted a node that was healthy and busy."""

    async def scene() -> None:
        with mending(tmp_path) as mend:
            await mend.broken()
            mend.bench.report("n1", mend.bench.fine())
            mend.anew(on())
            for _ in range(3):
                await mend.tick()
            assert mend.states() == [] and mend.reboots() == []

    asyncio.run(scene())


def test_e104_what_was_planned_before_a_restart_is_not_done_to_a_node_that_is_well_again(tmp_path: Path) -> None:
    async def scene() -> None:
        with mending(tmp_path) as mend:
            await mend.broken()
            mend.anew(on())
            mend.heard()
            await mend.remedies.planner.propose()
            mend.bench.report("n1", mend.bench.fine())
            mend.anew(on())
            mend.later(1000)
            mend.bench.report("n1", mend.bench.fine())
            await mend.tick()
            await mend.tick()
            assert mend.states() == [("reset-gpu", "expired")]

    asyncio.run(scene())


def test_a_server_that_starts_anew_gives_the_same_order_and_no_second_one(tmp_path: Path) -> None:
    async def scene(mend: Mending) -> None:
        await begun(mend)
        first = mend.reset_order()
        mend.anew(on())
        await mend.tick()
        assert mend.reset_order() == first
        mend.tells(first, "done")
        mend.anew(on())
        await mend.tick()
        assert mend.states() == [("reset-gpu", "done")]

    play(tmp_path, scene)


def test_an_agent_that_does_not_begin_is_not_waited_for_without_end(tmp_path: Path) -> None:
    async def scene(mend: Mending) -> None:
        await begun(mend)
        mend.later(2000)
        await mend.tick()
        assert mend.states()[0] == ("reset-gpu", "expired")
        assert not [o for o in mend.orders() if o.kind == "reset-gpu"]

    play(tmp_path, scene)


def test_a_node_that_allows_no_reset_is_not_asked(tmp_path: Path) -> None:
    async def never() -> None:
        with mending(tmp_path) as mend:
            await mend.broken()
            mend.anew(on())
            mend.heard("n1", "run:other")
            for _ in range(3):
                await mend.bench.tick()
            assert mend.states() == [] and "does not allow reset-gpu" in mend.why()

    asyncio.run(never())


def test_a_slurm_that_does_not_answer_leaves_the_plan_as_it_is(tmp_path: Path) -> None:
    async def scene() -> None:
        with mending(tmp_path) as mend:
            await mend.broken()
            mend.anew(on())
            mend.heard()
            await mend.remedies.planner.propose()
            mend.slurm.error = Unreachable("no")
            await mend.remedies.look()
            assert mend.states() == [("reset-gpu", "planned")]
            mend.slurm.error = None
            await mend.tick()
            assert mend.states() == [("reset-gpu", "running")]

    asyncio.run(scene())


def test_a_person_takes_a_plan_back(tmp_path: Path) -> None:
    async def scene() -> None:
        with mending(tmp_path) as mend:
            await mend.broken()
            mend.anew(on())
            mend.heard()
            row = await mend.remedies.ask("n1", "reset-gpu", (GPU,), "ann")
            assert row.id is not None
            assert await mend.remedies.cancel(row.id, "ben")
            assert not await mend.remedies.cancel(row.id, "ben")
            (only,) = mend.history()
            assert (only.state, only.why) == ("cancelled", "taken back by ben")

    asyncio.run(scene())
