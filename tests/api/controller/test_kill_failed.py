"""A node that Slurm drained since a job could not be killed is shown with what is left, and by opt-in given back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from checks.wire import JobAttempt
from slurm.state import Reason
from tests.api.controller.fake_slurm import Bench, bench

NOTHING = ("unkillable", "0 processes of job 42 left, 0 in state D")
CLEAR = (*NOTHING, "seen 3 times in a row")
STUCK = (
    "unkillable",
    "2 processes of job 42 left, 1 in state D",
    "pid 4711 python state D: nvidia_close < __fput",
    "pid 4712 sh state S in do_wait",
    "/dev/nvidia3 held by 4711, 4712",
)


def killed(b: Bench, node: str = "n1", user: str = "root", text: str = "Kill task failed") -> None:
    """Slurm gives a job up there; its reason was written a minute ago."""
    b.slurm.set(node, "drain", text, user=user)
    state = b.slurm.table[node]
    b.slurm.table[node] = replace(state, reason=Reason(text, user, b.now() - timedelta(seconds=60)))
    b.slurm.writes.clear()


def notes(b: Bench, node: str, lines: tuple[str, ...], job: int = 42, age: float = 1.0) -> None:
    b.report(node, occasion="epilog", job=JobAttempt(job_id=job), notes=lines, age=age)


def beside(b: Bench, node: str = "n1") -> str:
    return "; ".join(next(d.beside for d in b.control.drains() if d.node == node))


def answer(b: Bench, node: str = "n1", check: str = "gpu_health", **changes: object) -> bool:
    """The agent answers the order that waits for it; whether there was one."""
    orders = asyncio.run(b.control.orders("sim", node, 0.0))
    for order in orders:
        b.report(node, b.fine(check, **changes), occasion="manual", notes=(f"order:{order.id}",))
        b.control.done((order.id,))
    return bool(orders)


def rounds(b: Bench, count: int = 4) -> None:
    for _ in range(count):
        b.offset += timedelta(seconds=30)
        asyncio.run(b.tick())
        answer(b)
    asyncio.run(b.tick())


def out(b: Bench, node: str = "n1") -> bool:
    return b.slurm.table[node].out_of_service


def test_what_is_left_is_told_and_never_resumed_by_default(tmp_path: Path) -> None:
    """E15: one D-state python that holds GPU 3."""
    with bench(tmp_path) as b:
        killed(b)
        notes(b, "n1", STUCK, age=70.0)
        asyncio.run(b.tick())
        assert "job 42: python[4711] in state D holds /dev/nvidia3" in beside(b)
        assert "sh[4712] in state S holds /dev/nvidia3" in beside(b)
        notes(b, "n1", CLEAR)
        b.offset = timedelta(minutes=3)
        b.report("n1", b.fine())
        asyncio.run(b.tick())
        assert beside(b) == "nothing left of job 42 since 3 min"
        rounds(b)
        assert out(b) and b.slurm.writes == []
        assert next(d.exit for d in b.control.drains()).startswith("slurm's own drain: nothing is left: scontrol")


def test_with_the_setting_it_goes_back_after_clean_looks_and_is_an_operation(tmp_path: Path) -> None:
    with bench(tmp_path, resume_kill_task_failed=True) as b:
        killed(b)
        b.report("n1", b.fine())
        notes(b, "n1", CLEAR)
        rounds(b)
        assert not out(b) and b.slurm.writes == [("resume", "n1", "")]
        made = b.core.operations.listing(None, "controller", None, 9)
        assert [(o.verb, o.counts) for o in made] == [("resume", {"done": 1})]
        assert "nothing left of job 42" in made[0].reason
        assert [a.subject for a in b.store.audit_log() if a.action == "resume kill failed"] == ["n1"]


@pytest.mark.parametrize(
    ("lines", "age"),
    [
        (STUCK, 1.0),
        (NOTHING, 1.0),
        (CLEAR, 100.0),
        (("unkillable", "evidence not collected: lane hangs"), 1.0),
        (("something else", *CLEAR[1:]), 1.0),
    ],
    ids=["processes left", "seen once only", "from before the drain", "nothing was seen", "not our note"],
)
def test_without_proof_that_nothing_is_left_it_stays(tmp_path: Path, lines: tuple[str, ...], age: float) -> None:
    with bench(tmp_path, resume_kill_task_failed=True) as b:
        killed(b)
        b.report("n1", b.fine())
        notes(b, "n1", lines, age=age)
        rounds(b)
        assert out(b) and b.slurm.writes == []


def test_every_job_that_could_not_be_killed_there_must_be_gone(tmp_path: Path) -> None:
    with bench(tmp_path, resume_kill_task_failed=True) as b:
        killed(b)
        b.report("n1", b.fine())
        notes(b, "n1", STUCK, job=41, age=50.0)
        notes(b, "n1", CLEAR)
        rounds(b)
        assert out(b)


@pytest.mark.parametrize(
    ("text", "user"),
    [
        ("Kill task failed", "bob"),
        ("Kill task failed - look at it (bob)", "root"),
        ("kill task failed", "root"),
        ("Prolog error", "root"),
    ],
)
def test_a_reason_that_is_not_just_slurms_own_is_left_alone(tmp_path: Path, text: str, user: str) -> None:
    with bench(tmp_path, resume_kill_task_failed=True) as b:
        killed(b, user=user, text=text)
        b.report("n1", b.fine())
        notes(b, "n1", CLEAR)
        rounds(b)
        assert out(b) and b.slurm.writes == []


def test_a_reason_that_is_edited_right_before_the_write_is_kept(tmp_path: Path) -> None:
    """The state that is judged is read anew right before the write: the bulk read may be seconds old."""
    with bench(tmp_path, resume_kill_task_failed=True) as b:
        killed(b)
        b.report("n1", b.fine())
        notes(b, "n1", CLEAR)
        real, state = b.slurm.node, b.slurm.table["n1"]

        def edited(name: str):  # type: ignore[no-untyped-def]
            found = real(name)
            return replace(found, reason=Reason("card ordered", "bob", b.now())) if name == "n1" else found

        b.slurm.node = edited  # type: ignore[method-assign]
        rounds(b)
        b.slurm.node = real  # type: ignore[method-assign]
        assert b.slurm.table["n1"] == state and b.slurm.writes == []


def test_a_fault_seen_at_a_look_or_known_of_the_node_keeps_it_out(tmp_path: Path) -> None:
    """A mount that hangs drains no node, but may be what held the job."""
    with bench(tmp_path, resume_kill_task_failed=True) as b:
        killed(b)
        b.report("n1", b.fine())
        notes(b, "n1", CLEAR)
        for _ in range(5):
            b.offset += timedelta(seconds=30)
            asyncio.run(b.tick())
            answer(b, check="mount", status="fail", code="mount_hung", blame="shared", message="/home hangs")
        assert out(b)
        answer(b, check="mount")
        b.report("n1", b.lost())
        for _ in range(4):
            b.offset += timedelta(seconds=30)
            asyncio.run(b.tick())
            answer(b, check="mount")
        assert out(b) and b.slurm.writes == []


def test_an_hours_limit_holds_also_after_a_restart(tmp_path: Path) -> None:
    with bench(tmp_path, resume_kill_task_failed=True, kill_failed_hourly=1, verify_rounds=1) as b:
        for node in ("n1", "n2"):
            killed(b, node)
            b.report(node, b.fine())
            notes(b, node, CLEAR)
        for turn in range(4):
            b.offset += timedelta(seconds=30)
            if turn == 2:
                b.control.lookouts.killed._cases.clear()
            asyncio.run(b.tick())
            answer(b, "n1"), answer(b, "n2")
        asyncio.run(b.tick())
        assert [out(b, n) for n in ("n1", "n2")].count(True) == 1
        assert ("", "kill_task_failed_limit") in b.incidents()


def test_many_nodes_of_one_job_are_one_incident_that_names_the_job(tmp_path: Path) -> None:
    """E15: a requeue loop drains 32 nodes at a time; the job is to be looked at, not the nodes."""
    with bench(tmp_path) as b:
        for node in ("n1", "n2", "n3"):
            killed(b, node)
            notes(b, node, STUCK, age=70.0)
        asyncio.run(b.tick())
        said = [i.message for i in b.store.incidents(True) if i.code == "kill_task_failed_many"]
        assert len(said) == 1 and "of job 42" in said[0] and "3 nodes" in said[0]
        b.slurm.resume("n1")
        asyncio.run(b.tick())
        assert ("", "kill_task_failed_many") not in b.incidents()


def test_hands_off_means_no_look_and_no_resume(tmp_path: Path) -> None:
    with bench(tmp_path, resume_kill_task_failed=True) as b:
        killed(b)
        b.report("n1", b.fine())
        notes(b, "n1", CLEAR)
        asyncio.run(b.control.pause("n1", 3600.0, "driver", "ann"))
        rounds(b)
        assert out(b)
        assert any(said.startswith("paused by ann until") for said in next(d.beside for d in b.control.drains()))


def test_our_finding_and_silences_stand_beside_a_foreign_reason(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        b.slurm.set("n1", "drain", "cable (bob)", user="bob")
        b.report("n1", b.lost())
        asyncio.run(
            b.control.silence(check="ib_port", nodes="", partition="main", seconds=60, reason="known", actor="ann")
        )
        asyncio.run(b.tick())
        view = b.control.drains()[0]
        assert view.reason == "cable (bob)" and view.beside[0] == "we find gpu_lost GPU 3: fell off the bus"
        assert view.beside[1].startswith("check ib_port is silenced by ann until")
