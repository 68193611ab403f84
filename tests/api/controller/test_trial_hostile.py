"""A trial goes wrong in every way that is not the node's: nothing of others is touched, nobody gets in, it is said."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from api.controller.records import DrainRecord
from slurm.errors import BadRequest
from slurm.reservation import Reserved
from slurm.state import Reason
from tests.api.controller.test_trial import drained, last, live, trying
from tests.api.controller.trials import Killed, Strict, job


def test_a_server_killed_between_two_lines_of_its_book_begins_no_second_trial(tmp_path: Path) -> None:
    slurm = Strict()
    with trying(tmp_path, slurm) as (b, _):
        drained(b, slurm)
        real = b.core.records.change

        def change(*given: Any, **values: Any) -> DrainRecord:
            if values.get("state") == "testing":
                raise Killed
            return real(*given, **values)

        b.core.records.change = change  # type: ignore[method-assign]
        with pytest.raises(Killed):
            asyncio.run(live(b, slurm, 5))
        assert len(b.control.trials.book.open()) == 1
    with trying(tmp_path, slurm) as (b, _):
        b.offset = timedelta(seconds=60)
        b._sequence = 100
        b.report("n2", b.fine())
        for _ in range(12):
            asyncio.run(live(b, slurm, 1))
            assert len(b.control.trials.book.open()) <= 1
            b.offset += timedelta(seconds=20)
        assert len(slurm.submitted) == 1 and slurm.opened == [] and slurm.reserved == {}
        assert last(b)[0] == "resumed"


@pytest.mark.parametrize("ends", ["CANCELLED", "PREEMPTED", "DEADLINE"])
def test_a_job_that_others_ended_is_not_the_nodes_fault(tmp_path: Path, ends: str) -> None:
    with trying(tmp_path) as (b, slurm):
        slurm.ends = ends
        drained(b, slurm)
        asyncio.run(live(b, slurm, 7))
        record = b.core.records.open_drains("sim")["n2"]
        assert slurm.table["n2"].drained and (record.held, record.step) == ("", "verify")
        assert ("n2", "trial_not_done") in b.incidents()


def test_a_trial_that_cannot_be_done_is_said_all_the_time_and_no_more_once_it_is_done(tmp_path: Path) -> None:
    class Mean(Strict):
        mean = True

        def submit(self, batch: Any) -> int:
            if self.mean:
                raise BadRequest("Invalid account or account/partition combination specified")
            return super().submit(batch)

    slurm = Mean()
    with trying(tmp_path, slurm) as (b, _):
        drained(b, slurm)
        asyncio.run(live(b, slurm, 3))
        for _ in range(12):
            asyncio.run(live(b, slurm, 1))
            assert ("n2", "trial_not_done") in b.incidents()
            b.offset += timedelta(seconds=20)
        slurm.mean = False
        for _ in range(12):
            asyncio.run(live(b, slurm, 1))
            b.offset += timedelta(seconds=20)
        assert last(b)[0] == "resumed" and ("n2", "trial_not_done") not in b.incidents()


def test_a_node_that_dies_in_its_trial_does_not_come_back_by_itself(tmp_path: Path) -> None:
    """ReturnToService=1 puts a node that did not answer in service again as soon as it answers."""
    with trying(tmp_path) as (b, slurm):
        slurm.ends = "RUNNING"
        drained(b, slurm)
        asyncio.run(live(b, slurm, 3))
        alive = slurm.table["n2"]
        dead = frozenset({"NOT_RESPONDING"})
        slurm.table["n2"] = replace(alive, base="DOWN", flags=dead, reason=Reason("Not responding", "slurm"))
        slurm.jobs[max(slurm.jobs)] = replace(job(b), state="NODE_FAIL")
        asyncio.run(live(b, slurm, 4))
        assert slurm.reserved and ("n2", "trial_stuck") in b.incidents()
        slurm.table["n2"] = alive
        asyncio.run(live(b, slurm, 5))
        assert slurm.table["n2"].drained and slurm.reserved == {} and slurm.opened == []
        assert last(b) == ("drained", f"failed its trial: job {max(slurm.jobs)} ended NODE_FAIL")


def test_a_node_that_is_paused_is_not_resumed_into_its_reservation(tmp_path: Path) -> None:
    with trying(tmp_path) as (b, slurm):
        drained(b, slurm)
        real = b.control.trials.begin

        async def begin(record: DrainRecord) -> None:
            await real(record)
            await b.control.pause("n2", 3600.0, "bob is inside the rack", "bob")

        b.control.trials.begin = begin  # type: ignore[method-assign]
        asyncio.run(live(b, slurm, 5))
        assert slurm.table["n2"].drained and slurm.submitted == {} and slurm.reserved == {}


def test_a_return_that_is_not_asked_for_any_more_leaves_no_reservation(tmp_path: Path) -> None:
    with trying(tmp_path) as (b, slurm):
        asyncio.run(b.tick())
        asyncio.run(b.control.drain("n2", "swap the fan", "ann"))
        asyncio.run(live(b, slurm, 1))
        asyncio.run(b.control.resume("n2", "ann"))
        real = b.control.trials.begin

        async def begin(record: DrainRecord) -> None:
            await real(record)
            now = b.core.records.open_drains("sim")["n2"]
            b.core.records.change(now, b.now(), resume_by=None)

        b.control.trials.begin = begin  # type: ignore[method-assign]
        asyncio.run(live(b, slurm, 6))
        assert slurm.table["n2"].drained and slurm.reserved == {} and b.control.trials.book.open() == []


def test_a_trial_under_way_is_not_called_off_in_words_only(tmp_path: Path) -> None:
    with trying(tmp_path) as (b, slurm):
        slurm.ends = "RUNNING"
        asyncio.run(b.tick())
        asyncio.run(b.control.drain("n2", "swap the fan", "ann"))
        asyncio.run(live(b, slurm, 1))
        asyncio.run(b.control.resume("n2", "ann"))
        asyncio.run(live(b, slurm, 3))
        assert last(b)[0] == "testing"
        (row,) = asyncio.run(b.control.desk.undo(None, "ann", dry_run=False))
        assert row.outcome == "refused" and "tried" in row.why


@pytest.mark.parametrize("name", ["nodevet_upgrade", "nodevet_0123abcd", "nodevet_"])
def test_a_reservation_of_others_under_a_name_like_ours_stays(tmp_path: Path, name: str) -> None:
    with trying(tmp_path) as (b, slurm):
        slurm.set("n3", "drain", "bob", user="bob")
        for nodes in (("n3",), ()):
            slurm.reserved[f"{name}{len(nodes)}"] = Reserved(f"{name}{len(nodes)}", nodes=nodes)
        asyncio.run(b.tick())
        assert len(slurm.reserved) == 2 and ("", "reservation_unknown") in b.incidents()
