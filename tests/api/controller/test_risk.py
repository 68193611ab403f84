"""A person may have a faulty node used: for a time, for what is known, with a name, and loud as long as it lasts."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from tests.api.controller.fake_slurm import Bench, bench


def accepted(b: Bench, code: str = "gpu_lost") -> None:
    """n2 is drained for a fault, and alice takes it back for four hours as it is."""
    b.report("n2", b.lost(code=code))
    asyncio.run(b.tick())
    rows = asyncio.run(b.control.desk.accept("n2", 4 * 3600.0, "only CPU jobs tonight", "alice"))
    assert [r.outcome for r in rows] == ["done"], rows
    assert not b.slurm.table["n2"].out_of_service
    b.slurm.writes.clear()


def test_nothing_is_drained_for_it_until_its_time_is_over(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        accepted(b)
        for hours in (0, 1, 3):
            b.offset = timedelta(hours=hours)
            b.report("n2", b.lost())
            asyncio.run(b.tick())
        assert b.slurm.writes == [] and ("n2", "risk_accepted") in b.incidents()
        b.offset = timedelta(hours=4, minutes=1)
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        assert b.slurm.table["n2"].out_of_service and ("n2", "risk_accepted") not in b.incidents()


def test_a_prolog_is_denied_with_whose_word_it_is(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        accepted(b)
        answer = asyncio.run(b.control.permit(b.request("n2", 7, b.lost())))
        assert not answer.granted and "risk accepted by alice until" in answer.why
        assert b.slurm.writes == []


def test_no_lease_is_out_for_a_node_whose_risk_is_accepted(tmp_path: Path) -> None:
    """An agent that holds one would refuse by itself."""
    with bench(tmp_path, count=40, lease_share=1.0) as b:
        asyncio.run(b.control.orders("sim", "n2", 0.0))
        asyncio.run(b.tick())
        assert b.control.leases_for("sim", "n2")
        accepted(b)
        assert b.control.leases_for("sim", "n2") == ()


def test_another_fault_drains_all_the_same(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        accepted(b)
        b.report("n2", b.lost(), b.lost("GPU 4", code="ecc_old"))
        asyncio.run(b.tick())
        assert "ecc_old" in b.slurm.writes[0][2] and "gpu_lost" not in b.slurm.writes[0][2]


def test_another_fault_refuses_a_job_all_the_same(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        accepted(b)
        answer = asyncio.run(b.control.permit(b.request("n2", 7, b.lost(), b.lost("GPU 4", code="ecc_old"))))
        assert answer.granted


def test_it_is_shown_outlives_a_restart_and_is_audited(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        accepted(b)
        assert any((a.actor, a.action) == ("alice", "risk accepted") for a in b.store.audit_log())
    with bench(tmp_path) as again:
        asyncio.run(again.tick())
        [risk] = again.control.desk.risks()
        assert (risk.node, risk.code, risk.actor, risk.reason) == ("n2", "gpu_lost", "alice", "only CPU jobs tonight")
        assert "alice" in again.control.desk.risk("sim", "n2")


def test_the_first_prolog_after_a_restart_knows_of_it(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        accepted(b)
    with bench(tmp_path) as again:
        answer = asyncio.run(again.control.permit(again.request("n2", 7, again.lost())))
        assert not answer.granted and "risk accepted by alice" in answer.why


def test_a_foreign_reason_or_a_healthy_node_has_no_risk_to_accept(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        b.slurm.set("n1", "drain", "fan", user="bob")
        rows = asyncio.run(b.control.desk.accept("n[1-2]", 60.0, "why", "alice"))
        assert [r.outcome for r in rows] == ["refused", "refused"]
        assert b.control.desk.risks() == [] and b.slurm.table["n1"].out_of_service


def test_a_resume_that_fails_leaves_no_risk_behind(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        b.slurm.resume = lambda name: b.slurm.down() or b.slurm._raise()  # type: ignore[method-assign,func-returns-value]
        rows = asyncio.run(b.control.desk.accept("n2", 60.0, "why", "alice"))
        assert rows[0].outcome == "failed" and b.control.desk.risks() == []


def test_clearing_ends_the_risk(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        accepted(b)
        assert asyncio.run(b.control.desk.clear("n2", "changed my mind", "alice"))[0].outcome == "done"
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        assert b.slurm.table["n2"].out_of_service
