"""A node that is tried as a job is never open to others before it has proved itself, wherever the server dies."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from slurm.errors import BadRequest
from slurm.reservation import Reserved
from tests.api.controller.fake_slurm import Bench, bench
from tests.api.controller.trials import Killed, Strict, job


@contextmanager
def trying(folder: Path, slurm: Strict | None = None, **settings: object) -> Iterator[tuple[Bench, Strict]]:
    """A bench whose nodes are tried as jobs, on a Slurm that outlives it."""
    given: dict[str, object] = {"verify_by": "job", "verify_rounds": 1, "trial_user": "nodevet", **settings}
    with bench(folder, **given) as b:  # type: ignore[arg-type]
        slurm = slurm or Strict()
        b.slurm = b.control.core.view.backend = slurm
        yield b, slurm


async def live(b: Bench, slurm: Strict, ticks: int = 1, *, answers: bool = True) -> None:
    """Rounds of controller, Slurm and agent."""
    for _ in range(ticks):
        b.offset += timedelta(seconds=1)
        await b.tick()
        slurm.play()
        for order in await b.control.orders("sim", "n2", 0.0) if answers else ():
            b.report("n2", b.fine(), occasion="burn-in", notes=(f"order:{order.id}",))
            b.control.done((order.id,))


def drained(b: Bench, slurm: Strict) -> None:
    b.report("n2", b.lost(code="ecc_old"))
    asyncio.run(live(b, slurm, 2, answers=False))
    assert slurm.table["n2"].drained
    b.report("n2", b.fine())


def last(b: Bench) -> tuple[str, str]:
    record = b.core.records.last("sim", "n2")
    assert record is not None
    return record.state, record.held or record.why


def test_reserved_first_then_handed_in_then_resumed_and_the_reservation_goes_last(tmp_path: Path) -> None:
    with trying(tmp_path, trial_command=("check", "%n"), trial_partition="main", trial_gres="gpu:8") as (b, slurm):
        drained(b, slurm)
        asyncio.run(live(b, slurm, 2))
        [reservation] = slurm.reserved.values()
        assert reservation.users == ("nodevet",) and reservation.flags == {"MAINT", "IGNORE_JOBS"}
        [batch] = slurm.submitted.values()
        assert (batch.argv, batch.nodes, batch.partition, batch.gres, batch.exclusive) == (
            ("check", "n2"), ("n2",), "main", "gpu:8", True,
        )  # fmt: skip
        assert batch.reservation == reservation.name and batch.seconds == 600
        assert not slurm.table["n2"].out_of_service and job(b).state == "RUNNING"
        asyncio.run(b.tick())
        assert b.control.service.states()["n2"] == "verifying"
        asyncio.run(live(b, slurm, 5))
        assert slurm.reserved == {} and slurm.opened == [] and not slurm.table["n2"].out_of_service
        assert last(b) == ("resumed", f"1 clean verifications and job {max(slurm.jobs)}")
        assert b.core.records.on_probation("sim")[0].node == "n2"


def test_a_job_that_fails_drains_the_node_again_before_the_reservation_goes_and_a_person_decides(
    tmp_path: Path,
) -> None:
    with trying(tmp_path) as (b, slurm):
        slurm.ends = "FAILED"
        drained(b, slurm)
        before = slurm.table["n2"].reason
        asyncio.run(live(b, slurm, 8))
        state = slurm.table["n2"]
        assert state.drained and state.reason and before and state.reason.text == before.text
        assert slurm.reserved == {} and slurm.opened == [] and len(slurm.jobs) == 1
        assert last(b) == ("drained", f"failed its trial: job {max(slurm.jobs)} ended FAILED")
        assert "failed its trial" in b.control.drains()[0].exit and "nodevet resume" in b.control.drains()[0].exit


def test_a_job_that_hangs_is_cancelled_at_its_deadline_and_the_node_stays_out(tmp_path: Path) -> None:
    with trying(tmp_path, trial_seconds=60.0) as (b, slurm):
        slurm.ends = "RUNNING"
        drained(b, slurm)
        asyncio.run(live(b, slurm, 3))
        assert job(b).state == "RUNNING"
        b.offset += timedelta(seconds=200)
        asyncio.run(live(b, slurm, 4))
        assert job(b).state == "CANCELLED" and slurm.table["n2"].drained and slurm.reserved == {}
        assert slurm.opened == [] and "RUNNING after 180 s" in last(b)[1]


def test_a_bad_look_after_a_good_job_keeps_it_out(tmp_path: Path) -> None:
    with trying(tmp_path) as (b, slurm):
        drained(b, slurm)

        slurm.ends = "RUNNING"
        asyncio.run(live(b, slurm, 3))
        slurm.ends = "COMPLETED"

        async def bad() -> None:
            for _ in range(6):
                b.offset += timedelta(seconds=1)
                slurm.play()
                await b.tick()
                for order in await b.control.orders("sim", "n2", 0.0):
                    b.report("n2", b.lost(code="ecc_old"), occasion="burn-in", notes=(f"order:{order.id}",))
                    b.control.done((order.id,))

        asyncio.run(bad())
        assert slurm.table["n2"].drained and slurm.reserved == {} and last(b)[0] == "drained"
        assert "failed its trial" in last(b)[1]


@pytest.mark.parametrize("other", ["a job", "another reservation", "a maintenance"])
def test_it_is_not_begun_beside_anybody_else(tmp_path: Path, other: str) -> None:
    """Never on a node with jobs, and not where another reservation could let somebody in."""
    with trying(tmp_path) as (b, slurm):
        drained(b, slurm)

        async def story() -> None:
            await live(b, slurm, 1)
            state = slurm.table["n2"]
            if other == "a job":
                slurm.table["n2"] = replace(state, base="MIXED")
            elif other == "a maintenance":
                slurm.table["n2"] = replace(state, flags=state.flags | {"MAINT"})
            else:
                slurm.reserved["team"] = Reserved("team", nodes=("n2",))
            await live(b, slurm, 3)

        asyncio.run(story())
        assert slurm.table["n2"].out_of_service and slurm.submitted == {} and slurm.reserved.keys() <= {"team"}


def test_a_refused_job_backs_out_and_is_our_own_trouble(tmp_path: Path) -> None:
    class Mean(Strict):
        def submit(self, batch: object) -> int:
            raise BadRequest("Invalid account or account/partition combination specified")

    with trying(tmp_path, Mean()) as (b, slurm):
        drained(b, slurm)
        asyncio.run(live(b, slurm, 4))
        assert slurm.table["n2"].drained and slurm.reserved == {} and slurm.opened == []
        record = b.core.records.open_drains("sim")["n2"]
        assert record.held == "" and record.step == "verify"


def test_a_person_who_drains_it_meanwhile_has_it(tmp_path: Path) -> None:
    with trying(tmp_path) as (b, slurm):
        slurm.ends = "RUNNING"
        drained(b, slurm)
        asyncio.run(live(b, slurm, 3))
        slurm.set("n2", "drain", "bob is inside the rack", user="bob")
        asyncio.run(live(b, slurm, 5))
        reason = slurm.table["n2"].reason
        assert reason is not None and reason.text == "bob is inside the rack"
        assert slurm.reserved == {} and job(b).state == "CANCELLED" and last(b)[0] == "taken_over"


def test_a_person_who_deletes_the_reservation_has_given_it_back(tmp_path: Path) -> None:
    with trying(tmp_path) as (b, slurm):
        slurm.ends = "RUNNING"
        drained(b, slurm)
        asyncio.run(live(b, slurm, 3))
        slurm.reserved.clear()
        asyncio.run(live(b, slurm, 4))
        assert last(b)[0] == "resumed_outside" and job(b).state == "CANCELLED"


def test_a_reservation_without_a_row_goes_where_our_drain_stands_and_is_said_elsewhere(tmp_path: Path) -> None:
    """The trial's row is lost, the drain's is not."""
    with trying(tmp_path, verify_by="agent") as (b, slurm):
        drained(b, slurm)
        ours = f"nodevet_{b.core.records.open_drains('sim')['n2'].token}"
        for name, node in ((ours, "n2"), ("nodevet_n4", "n4"), ("team", "n1")):
            slurm.reserved[name] = Reserved(name, nodes=(node,))
        b.control.trials._swept = False
        asyncio.run(b.tick())
        assert slurm.reserved.keys() == {"nodevet_n4", "team"}
        assert ("", "reservation_unknown") in b.incidents()


def test_a_persons_own_drain_that_was_written_again_before_a_crash_is_tidied(tmp_path: Path) -> None:
    with trying(tmp_path) as (b, slurm):
        asyncio.run(b.tick())
        asyncio.run(b.control.drain("n2", "swap the fan", "ann"))
        asyncio.run(live(b, slurm, 1))
        asyncio.run(b.control.resume("n2", "ann"))
        slurm.ends = "FAILED"
        asyncio.run(live(b, slurm, 3))
        slurm.die_at, slurm.after = slurm.calls + 1, True
        with pytest.raises(Killed):
            asyncio.run(live(b, slurm, 5))
        slurm.die_at = -1
        assert slurm.table["n2"].drained
        asyncio.run(live(b, slurm, 4))
        reason = slurm.table["n2"].reason
        assert reason is not None and reason.text.startswith("nodevet/person: swap the fan")
        assert slurm.reserved == {} and b.control.trials.book.open() == []


def test_only_so_many_at_once(tmp_path: Path) -> None:
    with trying(tmp_path, trials_at_once=0) as (b, slurm):
        drained(b, slurm)
        asyncio.run(live(b, slurm, 5))
        assert slurm.submitted == {} and slurm.table["n2"].drained


def test_a_permit_for_our_own_job_is_not_granted(tmp_path: Path) -> None:
    with trying(tmp_path) as (b, slurm):
        slurm.ends = "RUNNING"
        drained(b, slurm)
        asyncio.run(live(b, slurm, 3))
        answer = asyncio.run(b.control.permit(b.request("n2", max(slurm.jobs), b.lost())))
        assert not answer.granted and "tried by a job of ours" in answer.why


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("ends", ["COMPLETED", "FAILED"])
def test_a_server_killed_at_any_write_lets_nobody_in_and_loses_nothing(tmp_path: Path, ends: str, after: bool) -> None:
    writes = _writes(tmp_path / "whole", ends)
    assert writes >= 4
    for at in range(writes):
        folder = tmp_path / f"k{at}"
        folder.mkdir()
        slurm = Strict()
        slurm.ends = ends
        with trying(folder, slurm) as (b, _):
            drained(b, slurm)
            slurm.die_at, slurm.after = slurm.calls + at + 1, after
            with pytest.raises(Killed):
                asyncio.run(live(b, slurm, 30))
        slurm.die_at = -1
        with trying(folder, slurm) as (b, _):
            b.offset = timedelta(seconds=60)
            b.report("n2", b.fine(), incarnation="b")
            asyncio.run(_settles(b, slurm, ends))
            assert slurm.opened == [], f"killed at write {at}"
            assert b.control.trials.book.open() == [], f"killed at write {at}"
            busy = [j for i, j in slurm.jobs.items() if not j.ended]
            assert slurm.reserved == {} or busy, f"killed at write {at}"


def _writes(folder: Path, ends: str) -> int:
    folder.mkdir()
    slurm = Strict()
    slurm.ends = ends
    with trying(folder, slurm) as (b, _):
        drained(b, slurm)
        before = slurm.calls
        asyncio.run(live(b, slurm, 8))
        return slurm.calls - before


async def _settles(b: Bench, slurm: Strict, ends: str) -> None:
    for _ in range(40):
        await live(b, slurm, 1)
        lost = [i for i, j in slurm.jobs.items() if j.state == "PENDING" and i not in _known(b)]
        for number in lost:
            # Handed in when the server died, so that nobody knows its number: the incident tells a person to do this.
            slurm.jobs[number] = replace(slurm.jobs[number], state="CANCELLED")
        record = b.core.records.last("sim", "n2")
        assert record is not None
        b.offset += timedelta(seconds=20)
        if not b.control.trials.book.open() and (record.state == "resumed" or record.held):
            break
    proved = ends == "COMPLETED"
    assert slurm.table["n2"].out_of_service is not proved


def _known(b: Bench) -> set[int]:
    return {t.job_id for t in b.control.trials.book.open() if t.job_id is not None}
