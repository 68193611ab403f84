"""A drained node is verified only by a whole, present and clean look of the boot that runs now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from api.controller.control import Controller
from checks.wire import Decision, Finding
from tests.api.controller.fake_slurm import Bench, bench

Look = Callable[[Bench], tuple[Finding, ...]]


def drained(b: Bench, *findings: Finding) -> None:
    """n2 is drained for these findings and looks content since."""
    b.report("n2", *findings)
    asyncio.run(b.tick())
    asyncio.run(b.tick())
    assert b.slurm.table["n2"].drained
    b.report("n2", *(b.fine(f.check) for f in findings))


async def ordered(b: Bench) -> str:
    """The note that answers the verification that is asked for now."""
    await b.tick()
    orders = await b.control.orders("sim", "n2", 0.0)
    assert [o.kind for o in orders] == ["verify"]
    return f"order:{orders[0].id}"


def rounds(b: Bench) -> int:
    return b.core.records.open_drains("sim")["n2"].rounds


NOT_CLEAN: dict[str, tuple[Look, Decision | None]] = {
    "the fault is there, seen by a clock that is 20 minutes behind": (
        lambda b: (b.lost(observed_at=b.now() - timedelta(minutes=20)),),
        None,
    ),
    "the fault is there, seen by a clock that is 20 minutes ahead": (
        lambda b: (b.lost(observed_at=b.now() + timedelta(minutes=20)),),
        None,
    ),
    "the check that drained it is not in the report": (lambda b: (b.fine("clock"),), None),
    "the check that drained it could not look": (
        lambda b: (b.lost(status="unknown", blame="self", code="check_error"), b.fine("clock")),
        None,
    ),
    "the check that drained it was skipped": (
        lambda b: (b.lost(status="skipped", blame=None, code="skipped"), b.fine("clock")),
        None,
    ),
    "its finding is older than the round": (
        lambda b: (b.fine(observed_at=b.now() - timedelta(minutes=5)),),
        None,
    ),
    "the agent misses a required check": (
        lambda b: (b.fine(),),
        Decision(verdict="unknown", wanted="admit", why="not answered: nvlink"),
    ),
    "the agent misses a required check beside a warning": (
        lambda b: (b.fine(), b.lost(check="clock", status="warn", code="clock_off")),
        Decision(verdict="degraded", wanted="admit", why="not answered: nvlink"),
    ),
    "the agent's own policy still wants a drain": (lambda b: (b.fine(),), Decision(verdict="faulty", wanted="drain")),
    "the agent keeps its hands off": (
        lambda b: (b.fine(),),
        Decision(verdict="healthy", wanted="admit", why="configuration is broken: x"),
    ),
    "the fault waits for its second sight": (
        lambda b: (b.fine(), b.lost(check="ib", code="ib_down", seen=1)),
        Decision(verdict="healthy", wanted="admit"),
    ),
    "nothing is said": (lambda b: (), Decision(verdict="healthy", wanted="admit")),
}


@pytest.mark.parametrize("case", NOT_CLEAN)
def test_a_look_that_proves_nothing_is_no_clean_round(tmp_path: Path, case: str) -> None:
    look, decision = NOT_CLEAN[case]
    with bench(tmp_path, verify_rounds=1) as b:
        drained(b, b.lost())

        async def story() -> None:
            note = await ordered(b)
            b.report("n2", *look(b), occasion="manual", notes=(note,), decision=decision)
            await b.tick()

        asyncio.run(story())
        assert b.slurm.table["n2"].drained, case
        assert rounds(b) == 0


def test_every_check_that_drained_it_must_be_content(tmp_path: Path) -> None:
    with bench(tmp_path, verify_rounds=1) as b:
        drained(b, b.lost(), b.lost(check="nvlink", code="link_down"))

        async def story(*findings: Finding) -> None:
            note = await ordered(b)
            b.report("n2", *findings, occasion="manual", notes=(note,))
            await b.tick()

        asyncio.run(story(b.fine()))
        assert b.slurm.table["n2"].drained
        b.offset += timedelta(minutes=5)
        b.report("n2", b.fine(), b.fine("nvlink"))
        asyncio.run(story(b.fine(), b.fine("nvlink")))
        assert not b.slurm.table["n2"].out_of_service


def test_a_reboot_between_two_rounds_starts_the_count_again(tmp_path: Path) -> None:
    """E08: another boot may be another machine."""
    with bench(tmp_path) as b:
        drained(b, b.lost())

        async def story() -> None:
            for boot, expected in (("boot-a", 1), ("boot-b", 1)):
                note = await ordered(b)
                b.report("n2", b.fine(), occasion="manual", notes=(note,), boot_id=boot, incarnation=boot)
                await b.tick()
                assert b.slurm.table["n2"].drained and rounds(b) == expected
            note = await ordered(b)
            b.report("n2", b.fine(), occasion="manual", notes=(note,), boot_id="boot-b", incarnation="boot-b")
            await b.tick()

        asyncio.run(story())
        assert not b.slurm.table["n2"].out_of_service


def test_the_answer_of_a_former_boot_verifies_nothing(tmp_path: Path) -> None:
    with bench(tmp_path, verify_rounds=1) as b:
        drained(b, b.lost())

        async def story() -> None:
            note = await ordered(b)
            b.report("n2", b.fine(), boot_id="boot-b", incarnation="b")
            b.report("n2", b.fine(), occasion="manual", notes=(note,), boot_id="boot-a", incarnation="a", age=30.0)
            await b.tick()

        asyncio.run(story())
        assert b.slurm.table["n2"].drained


def test_silence_breaks_a_row_and_only_one_order_waits(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drained(b, b.lost())

        async def story() -> None:
            note = await ordered(b)
            b.report("n2", b.fine(), occasion="manual", notes=(note,))
            await b.tick()
            assert rounds(b) == 1
            for _ in range(5):
                b.offset += timedelta(seconds=b.core.settings.verify_timeout + 5)
                b.report("n2", b.fine())
                await b.tick()
            assert rounds(b) == 0
            assert len(await b.control.orders("sim", "n2", 0.0)) == 1

        asyncio.run(story())
        assert b.slurm.table["n2"].drained


def test_a_failed_verification_is_not_asked_for_again_at_once(tmp_path: Path) -> None:
    """Otherwise a node whose look never comes out clean is tested without end."""
    with bench(tmp_path) as b:
        drained(b, b.lost())

        async def story() -> int:
            asked = 0
            for _ in range(6):
                await b.tick()
                for order in await b.control.orders("sim", "n2", 0.0):
                    asked += 1
                    b.report("n2", b.fine(), occasion="manual", notes=(f"order:{order.id}",),
                             decision=Decision(verdict="unknown", wanted="admit"))  # fmt: skip
                    b.control.done((order.id,))
            return asked

        assert asyncio.run(story()) == 1


def test_a_fault_that_is_back_ends_an_open_question(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drained(b, b.lost())

        async def story() -> None:
            await ordered(b)
            b.report("n2", b.lost())
            b.offset += timedelta(seconds=b.core.settings.verify_timeout + 5)
            b.report("n2", b.lost())
            await b.tick()

        asyncio.run(story())
        record = b.core.records.open_drains("sim")["n2"]
        assert (record.state, record.order_id) == ("drained", None)


def test_a_node_that_slurm_does_not_hear_is_not_given_back(tmp_path: Path) -> None:
    """Its slurmd is gone: a resume would only take Slurm's own DOWN away for a moment."""
    with bench(tmp_path, verify_rounds=1) as b:
        drained(b, b.lost())

        async def story() -> None:
            note = await ordered(b)
            b.report("n2", b.fine(), occasion="manual", notes=(note,))
            state = b.slurm.table["n2"]
            b.slurm.table["n2"] = replace(state, base="DOWN", flags=state.flags | {"NOT_RESPONDING"})
            await b.tick()
            assert b.slurm.table["n2"].drained
            b.slurm.table["n2"] = state
            await b.tick()

        asyncio.run(story())
        assert not b.slurm.table["n2"].out_of_service


def test_a_person_may_make_our_drain_theirs_and_the_fault_stays_to_be_verified(tmp_path: Path) -> None:
    with bench(tmp_path, verify_rounds=1) as b:
        drained(b, b.lost())
        assert [r.outcome for r in asyncio.run(b.control.preview("n2", "drain"))] == ["planned"]
        assert [r.outcome for r in asyncio.run(b.control.drain("n2", "swap GPU 3", "alice"))] == ["done"]
        reason = b.slurm.table["n2"].reason
        assert reason and reason.text.startswith("nodevet/person: swap GPU 3")

        async def story(*findings: Finding) -> None:
            for _ in range(3):
                await b.tick()
                assert await b.control.orders("sim", "n2", 0.0) == ()
            await b.control.resume("n2", "alice")
            note = await ordered(b)
            b.report("n2", *findings, occasion="manual", notes=(note,))
            await b.tick()

        asyncio.run(story(b.fine("clock")))
        assert b.slurm.table["n2"].drained, "the check that found the fault has not spoken"
        asyncio.run(story(b.fine()))
        assert not b.slurm.table["n2"].out_of_service
        assert len(b.core.records.listing("sim")) == 0


def test_an_order_that_died_with_its_server_is_given_again_as_the_same(tmp_path: Path) -> None:
    with bench(tmp_path, verify_rounds=1) as b:
        drained(b, b.lost())

        async def story() -> None:
            note = await ordered(b)
            old = b.control
            b.control = Controller(old.core.settings, b.database, b.store, b.slurm, policy=b.core.policy)
            b.core = b.control.core
            b.core.clock = b.now
            assert await ordered(b) == note
            b.report("n2", b.fine(), occasion="manual", notes=(note,))
            await b.tick()

        asyncio.run(story())
        assert not b.slurm.table["n2"].out_of_service
