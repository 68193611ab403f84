"""What a crash left half done is settled by what Slurm holds, never by what we meant."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from api.controller.records import NewDrain, new_token
from slurm.reason import compose
from tests.api.controller.fake_slurm import Bench, bench


def intent(b: Bench, node: str, text: str = "") -> str:
    """A drain that was written down, and then the server crashed; gives the reason that it meant."""
    token = new_token()
    reason = compose("gpu_lost", "GPU 3: gone", token=token)
    new = NewDrain(
        cluster="sim", node=node, owner="ours-automatic", actor="controller", codes=("gpu_lost",), token=token,
        reason=reason, step="verify",
    )  # fmt: skip
    b.core.records.intend(new, b.now() - timedelta(seconds=5))
    return reason


def test_a_clock_set_back_hides_no_hand_of_a_person(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        b.report("n2", b.lost(code="ecc_old"))
        asyncio.run(b.tick())
        b.slurm.resume("n2")
        b.offset = timedelta(hours=1)
        record = b.core.records.open_drains("sim")["n2"]
        b.core.records.change(record, b.now(), state="drained")
        b.offset = timedelta()
        b.report("n2", b.fine())
        asyncio.run(b.tick())
        last = b.core.records.last("sim", "n2")
        assert last and last.state == "resumed_outside"


def test_an_intent_that_a_person_was_quicker_than_is_no_drain_of_ours(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        intent(b, "n2")
        b.slurm.set("n2", "drain", "bob", user="root")
        asyncio.run(b.tick())
        last = b.core.records.last("sim", "n2")
        assert last and last.state == "failed"
        assert b.core.records.past("sim", b.now() - timedelta(hours=1)) == []


def test_an_intent_that_landed_leaves_one_open_record(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        b.slurm.set("n2", "drain", intent(b, "n2"))
        asyncio.run(b.tick())
        assert len(b.core.records.listing("sim")) == 1


@pytest.mark.parametrize("landed", [False, True])
def test_restarts_between_intent_and_write_pass_no_ceiling(tmp_path: Path, landed: bool) -> None:
    """Each crash leaves an intent; all of them count until Slurm has said what became of them."""
    with bench(tmp_path, count=8) as b:
        for node in ("n1", "n2"):
            reason = intent(b, node)
            if landed:
                b.slurm.set(node, "drain", reason)
        b.slurm.writes.clear()
        b.report("n5", b.lost(code="ecc_old"))
        asyncio.run(b.tick())
        assert b.slurm.writes == [], "two of eight are out or on their way, and two is the limit"
