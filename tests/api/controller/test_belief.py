"""A person who gives a node back is believed for a while, by hooks and rounds alike, and there is never a duel."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.api.controller.fake_slurm import Bench, bench


def resumed(b: Bench, code: str) -> None:
    """n2 is drained by us for a fault that stays, and resumed by a person in Slurm."""
    b.report("n2", b.lost(code=code))
    asyncio.run(b.tick())
    assert b.slurm.table["n2"].out_of_service
    b.slurm.resume("n2")
    b.slurm.writes.clear()


def test_a_prolog_believes_the_person_too(tmp_path: Path) -> None:
    """E14."""
    with bench(tmp_path) as b:
        resumed(b, "ecc_old")
        asyncio.run(b.tick())
        answer = asyncio.run(b.control.permit(b.request("n2", 7, b.lost(code="ecc_old"))))
        assert not answer.granted and "person" in answer.why
        assert b.slurm.writes == []


def test_a_forced_resume_through_us_is_believed(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        b.report("n2", b.lost(code="ecc_old"))
        asyncio.run(b.tick())
        rows = asyncio.run(b.control.resume("n2", "alice", verify=False, force=True))
        assert rows[0].outcome == "done"
        b.slurm.writes.clear()
        b.report("n2", b.lost(code="ecc_old"))
        asyncio.run(b.tick())
        assert b.slurm.writes == [] and ("n2", "resumed_while_faulty") in b.incidents()


def test_a_fault_that_breaks_every_job_is_drained_again_but_never_in_a_duel(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        resumed(b, "gpu_lost")
        for _ in range(4):
            asyncio.run(b.tick())
            if b.slurm.table["n2"].out_of_service:
                b.slurm.resume("n2")
        drains = [w for w in b.slurm.writes if w[0] == "drain"]
        assert len(drains) == 1, "who resumes twice at once is a tool or means it"
        assert ("n2", "contested") in b.incidents()


def test_an_attempt_that_did_not_write_does_not_end_the_belief(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        resumed(b, "ecc_old")
        asyncio.run(b.tick())
        b.slurm.set("n2", "drain", "bob", user="root")
        asyncio.run(b.control.permit(b.request("n2", 7, b.lost(code="other"))))
        b.slurm.resume("n2")
        b.slurm.writes.clear()
        b.report("n2", b.lost(code="ecc_old"))
        asyncio.run(b.tick())
        assert b.slurm.writes == []
