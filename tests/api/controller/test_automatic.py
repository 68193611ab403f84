"""A faulty idle node is drained once, with our reason; a good, foreign, busy-handed or doubtful one never."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from api.controller.tables import drains
from checks.judge.guard import GuardLimits
from checks.judge.policy import merge, read_pack
from slurm.reason import Owner, owner_of, parse
from slurm.state import Reason
from tests.api.controller.fake_slurm import POLICY_TEXT, Bench, bench


def test_a_lost_gpu_drains_its_idle_node_with_part_and_code_in_the_reason(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        state = b.slurm.table["n2"]
        assert owner_of(state) is Owner.OURS_AUTOMATIC
        assert state.reason and state.reason.text.startswith("nodevet: gpu_lost GPU 3: fell off the bus [")
        record = b.core.records.open_drains("sim")["n2"]
        ours = parse(state.reason.text)
        assert ours and record.token == ours.token and record.state == "draining"
        asyncio.run(b.tick())
        assert [w[0] for w in b.slurm.writes] == ["drain"]
        assert b.core.records.open_drains("sim")["n2"].state == "drained"


@pytest.mark.parametrize(
    ("status", "blame", "code"),
    [
        ("warn", "node", "gpu_lost"),
        ("fail", "fabric", "ib_down"),
        ("fail", "shared", "mount_hung"),
        ("fail", "config", "clock_off"),
        ("fail", "job", "xid_app"),
        ("unknown", "self", "check_error"),
        ("fail", "node", "shadowed"),
    ],
)
def test_nothing_but_a_fault_of_the_node_drains(tmp_path: Path, status: str, blame: str, code: str) -> None:
    with bench(tmp_path) as b:
        b.report("n2", b.lost(status=status, blame=blame, code=code))
        asyncio.run(b.tick())
        assert b.slurm.writes == []


def test_an_administrators_drain_is_left_alone(tmp_path: Path) -> None:
    """E01: the reason of a person was replaced by a watchdog's note and the node resumed."""
    with bench(tmp_path) as b:
        b.slurm.set("n2", "drain", "ADMIN SHUTDOWN", user="root")
        b.slurm.writes.clear()
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        b.report("n2", b.fine())
        asyncio.run(b.tick())
        assert b.slurm.writes == []


@pytest.mark.parametrize(
    "flag", ["MAINT", "REBOOT_REQUESTED", "REBOOT_ISSUED", "POWERING_UP", "POWERED_DOWN", "INVALID_REG"]
)
def test_hands_are_off_while_somebody_works(tmp_path: Path, flag: str) -> None:
    """E05, E06, E93, E94, E106: a planned reboot, a node that boots or sleeps, a reservation for maintenance."""
    with bench(tmp_path) as b:
        b.slurm.table["n2"] = replace(b.slurm.table["n2"], flags=frozenset({flag}))
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        assert b.slurm.writes == []


def test_old_findings_drain_nothing(tmp_path: Path) -> None:
    """E104: old events never lead to a drain."""
    with bench(tmp_path) as b:
        b.report("n2", b.lost())
        b.offset = timedelta(seconds=b.core.settings.fresh + 60)
        asyncio.run(b.tick())
        assert b.slurm.writes == []


@pytest.mark.parametrize("age", [30, 400, 4000])
def test_what_an_earlier_agent_left_in_its_outbox_drains_nothing_later(tmp_path: Path, age: int) -> None:
    """E104: sent after the restart, it is older than what the node says now."""
    with bench(tmp_path) as b:
        b.report("n2", b.fine(), incarnation="b")
        then = b.now() - timedelta(seconds=age)
        b.report("n2", b.lost(observed_at=then, since=then), incarnation="a", age=age)
        asyncio.run(b.tick())
        assert b.slurm.writes == [] and b.incidents() == set()


def test_a_slurm_that_does_not_answer_is_an_incident_and_no_drain(tmp_path: Path) -> None:
    """E02: slowness of slurmctld is not a node's fault."""
    with bench(tmp_path) as b:
        b.report("n2", b.lost())
        b.slurm.down()
        asyncio.run(b.tick())
        assert ("", "slurm_unreachable") in b.incidents()
        b.slurm.error = None
        asyncio.run(b.tick())
        assert ("", "slurm_unreachable") not in b.incidents()
        assert [w[1] for w in b.slurm.writes] == ["n2"]


def test_many_failing_alike_are_one_incident_and_no_drain(tmp_path: Path) -> None:
    """E65: a rule with a mistake must not empty the cluster."""
    with bench(tmp_path, count=100) as b:
        for i in range(1, 31):
            b.report(f"n{i}", b.lost())
        asyncio.run(b.tick())
        assert b.slurm.writes == []
        assert ("", "many_gpu_lost") in b.incidents()


def test_the_guard_stops_at_its_ceiling_and_says_so(tmp_path: Path) -> None:
    guard = GuardLimits(drained_least=2, hourly_least=10, alike_least=10)
    with bench(tmp_path, count=8, guard=guard) as b:
        for i in range(1, 5):
            b.report(f"n{i}", b.lost())
        asyncio.run(b.tick())
        assert len(b.slurm.writes) == 2
        assert {code for _, code in b.incidents()} >= {"guard_closed"}


def test_automation_off_writes_nothing(tmp_path: Path) -> None:
    with bench(tmp_path, automation=False) as b:
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        assert b.slurm.writes == []


def test_a_resume_by_hand_of_a_still_faulty_node_is_seen(tmp_path: Path) -> None:
    """E14: a fault that breaks every job drains again at once with the same code, others after the time of belief."""
    with bench(tmp_path) as b:
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        b.slurm.resume("n2")
        asyncio.run(b.tick())
        assert [w[0] for w in b.slurm.writes] == ["drain", "resume", "drain"]
        b.report("n3", b.lost(code="ecc_old"))
        asyncio.run(b.tick())
        b.slurm.resume("n3")
        b.slurm.writes.clear()
        asyncio.run(b.tick())
        assert b.slurm.writes == [] and ("n3", "resumed_while_faulty") in b.incidents()
        b.offset = timedelta(seconds=b.core.settings.belief + 60)
        b.report("n3", b.lost(code="ecc_old"))
        asyncio.run(b.tick())
        assert [w[:2] for w in b.slurm.writes] == [("drain", "n3")]


def test_a_reason_changed_by_a_person_makes_the_drain_theirs(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        b.slurm.set("n2", "reason", "bob looks at it", user="root")
        b.report("n2", b.fine())
        for _ in range(4):
            asyncio.run(b.tick())
        assert b.slurm.table["n2"].out_of_service
        last = b.core.records.last("sim", "n2")
        assert last and (last.state, last.open) == ("taken_over", False)


def test_an_old_reason_left_on_a_node_in_service_means_nothing(tmp_path: Path) -> None:
    """24.11 keeps the reason after a resume."""
    with bench(tmp_path) as b:
        b.slurm.table["n2"] = replace(b.slurm.table["n2"], reason=Reason("maintenance of last week", "root"))
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        assert owner_of(b.slurm.table["n2"]) is Owner.OURS_AUTOMATIC


def test_hostile_text_reaches_slurm_as_one_harmless_line(tmp_path: Path) -> None:
    """E99."""
    with bench(tmp_path) as b:
        b.report("n2", b.lost(message='rock\'n roll $(reboot) "x" \n\x1b[31m' + "é" * 3000))
        asyncio.run(b.tick())
        reason = b.slurm.table["n2"].reason
        assert (
            reason and reason.text.isprintable() and len(reason.text) <= 200 and "rock'n roll $(reboot)" in reason.text
        )


def crashed(b: Bench, number: int) -> None:
    """The record as it is when the server dies right after it has asked Slurm."""
    with b.database.begin() as connection:
        connection.execute(update(drains).where(drains.c.id == number).values(state="intent", changed_at=b.now()))


def test_an_intent_that_a_crash_left_behind_is_settled(tmp_path: Path) -> None:
    """The write may or may not have landed before the crash; both are found out."""
    with bench(tmp_path) as b:
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        record = b.core.records.open_drains("sim")["n2"]
        crashed(b, record.id)
        asyncio.run(b.tick())
        assert b.core.records.open_drains("sim")["n2"].state == "drained"
        b.slurm.resume("n2")
        crashed(b, record.id)
        b.report("n2", b.fine())
        b.offset = timedelta(seconds=120)
        asyncio.run(b.tick())
        b.offset = timedelta()
        last = b.core.records.last("sim", "n2")
        assert last and last.state == "failed"


def test_what_was_seen_before_a_reboot_drains_nothing_after_it(tmp_path: Path) -> None:
    """E05: an administrator rebooted the node for the fault; it must not be drained for it once it is back."""
    with bench(tmp_path) as b:
        b.slurm.table["n2"] = replace(b.slurm.table["n2"], flags=frozenset({"REBOOT_ISSUED"}))
        b.report("n2", b.lost(observed_at=b.now() - timedelta(seconds=300)))
        asyncio.run(b.tick())
        back = replace(b.slurm.table["n2"], flags=frozenset(), boot_time=b.now() - timedelta(seconds=60))
        b.slurm.table["n2"] = back
        asyncio.run(b.tick())
        assert b.slurm.writes == []
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        assert [w[:2] for w in b.slurm.writes] == [("drain", "n2")]


def test_a_warning_that_the_sites_policy_calls_a_fault_drains_too(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        stricter = merge([("test", read_pack(POLICY_TEXT + '[codes.hot]\nstatus = "fail"\n', "test"))])
        b.core.policy = b.store.policy = stricter
        b.report("n2", b.lost(status="warn", code="hot"))
        asyncio.run(b.tick())
        assert [w[:2] for w in b.slurm.writes] == [("drain", "n2")]
