"""Others who give a node back while its fault stays are answered with a count, thrice at most, and never in a duel."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from tests.api.controller.fake_slurm import Bench, bench

HOUR = timedelta(hours=1)


def foreign_resume(b: Bench, code: str, *, after: timedelta = HOUR) -> str:
    """n2 is drained for a fault that stays and resumed in Slurm some time later; the reason it had."""
    b.report("n2", b.lost(code=code))
    asyncio.run(b.tick())
    reason = b.slurm.table["n2"].reason
    if not b.slurm.table["n2"].out_of_service:
        return ""
    b.offset += after
    b.slurm.resume("n2")
    asyncio.run(b.tick())
    b.report("n2", b.lost(code=code))
    return reason.text if reason else ""


def test_a_hard_fault_is_drained_again_with_the_count_in_the_reason(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        reasons = [foreign_resume(b, "gpu_lost") for _ in range(3)]
        assert "foreign" not in reasons[0]
        assert "drained again, 1 foreign resume: " in reasons[1] and "drained again, 2 foreign resumes: " in reasons[2]


def test_after_three_foreign_resumes_we_stop_until_a_person_clears_it(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        for _ in range(3):
            assert foreign_resume(b, "gpu_lost")
        for _ in range(3):
            b.offset += timedelta(days=20)
            b.report("n2", b.lost())
            asyncio.run(b.tick())
            assert not b.slurm.table["n2"].out_of_service
        assert ("n2", "contested") in b.incidents()
        answer = asyncio.run(b.control.permit(b.request("n2", 7, b.lost())))
        assert not answer.granted and "contested" in answer.why
        rows = asyncio.run(b.control.desk.clear("n2", "riser was replaced", "alice"))
        assert rows[0].outcome == "done" and ("n2", "contested") not in b.incidents()
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        assert b.slurm.table["n2"].out_of_service
        assert any((a.actor, a.action, a.subject) == ("alice", "contest cleared", "n2") for a in b.store.audit_log())


def test_no_lease_is_out_for_a_contested_node(tmp_path: Path) -> None:
    with bench(tmp_path, count=40, lease_share=1.0) as b:
        for _ in range(3):
            foreign_resume(b, "gpu_lost")
        asyncio.run(b.control.orders("sim", "n2", 0.0))
        b.report("n2", b.lost())
        for _ in range(2):
            asyncio.run(b.tick())
        assert ("n2", "contested") in b.incidents() and b.control.leases_for("sim", "n2") == ()


def test_another_fault_of_a_contested_node_still_drains_it(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        for _ in range(3):
            foreign_resume(b, "gpu_lost")
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        assert not b.slurm.table["n2"].out_of_service
        b.report("n2", b.lost(code="gpu_other"))
        asyncio.run(b.tick())
        assert b.slurm.table["n2"].out_of_service


def test_a_tool_that_resumes_behind_us_gets_one_drain_more_and_no_duel(tmp_path: Path) -> None:
    """An NHC that marks nodes online after each of its own green runs, every minute."""
    with bench(tmp_path) as b:
        for _ in range(6):
            foreign_resume(b, "gpu_lost", after=timedelta(seconds=60))
        assert sum(verb == "drain" for verb, _, _ in b.slurm.writes) == 2
        assert ("n2", "contested") in b.incidents()


def test_a_contest_outlives_a_restart_of_the_server(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        for _ in range(3):
            foreign_resume(b, "gpu_lost")
        b.report("n2", b.lost())
        asyncio.run(b.tick())
    with bench(tmp_path) as again:
        again.offset = timedelta(days=2)
        again.report("n2", again.lost(), incarnation="b")
        asyncio.run(again.tick())
        assert again.slurm.writes == [] and ("n2", "contested") in again.incidents()


def test_a_soft_fault_is_believed_for_its_time_and_contested_in_the_end(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        for _ in range(3):
            assert foreign_resume(b, "ecc_old")
            asyncio.run(b.tick())
            assert not b.slurm.table["n2"].out_of_service, "believed"
            b.offset += HOUR
        b.report("n2", b.lost(code="ecc_old"))
        asyncio.run(b.tick())
        assert not b.slurm.table["n2"].out_of_service and ("n2", "contested") in b.incidents()
