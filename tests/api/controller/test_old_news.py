"""What was seen before hands left a node, or long ago, or of a whole rack alike, has no consequence of its own."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from slurm.state import Reason
from tests.api.controller.fake_slurm import Bench, bench
from tests.api.controller.test_kill_failed import CLEAR, answer, killed, notes, out


def test_a_part_that_is_found_after_a_maintenance_does_not_bring_back_what_was_seen_before_it(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        b.slurm.table["n2"] = replace(b.slurm.table["n2"], flags=frozenset({"MAINT"}))
        asyncio.run(b.tick())
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        b.slurm.table["n2"] = replace(b.slurm.table["n2"], flags=frozenset())
        asyncio.run(b.tick())
        assert b.slurm.writes == []
        asyncio.run(b.core.wave.want(["n2"], "identity", "part swapped: gpu in 3 is 1234 now"))
        asyncio.run(b.tick())
        assert b.slurm.writes == []


def test_a_node_said_to_be_ready_is_looked_at_before_it_is_judged(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        asyncio.run(b.tick())
        asyncio.run(b.control.pause("n2", 600.0, "fabric manager", "bob"))
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        b.offset += timedelta(seconds=60)
        asyncio.run(b.control.unpause("n2", "bob"))
        asyncio.run(b.tick())
        assert b.slurm.writes == [], "what bob has mended is no fault"
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        assert [w[:2] for w in b.slurm.writes] == [("drain", "n2")]


def looked(b: Bench, node: str, count: int = 4) -> None:
    for _ in range(count):
        b.offset += timedelta(seconds=30)
        asyncio.run(b.tick())
        answer(b, node)


def test_looks_of_an_hour_ago_give_no_node_back(tmp_path: Path) -> None:
    """The hour's limit held n2 back; meanwhile its agent died."""
    with bench(tmp_path, resume_kill_task_failed=True, kill_failed_hourly=1) as b:
        for node in ("n1", "n2"):
            killed(b, node)
            notes(b, node, CLEAR)
            b.report(node, b.fine())
        for _ in range(5):
            b.offset += timedelta(seconds=30)
            asyncio.run(b.tick())
            answer(b, "n1")
            answer(b, "n2")
        asyncio.run(b.tick())
        assert [out(b, "n1"), out(b, "n2")].count(True) == 1
        b.offset += timedelta(seconds=4000)
        asyncio.run(b.tick())
        asyncio.run(b.tick())
        assert [out(b, "n1"), out(b, "n2")].count(True) == 1


def test_a_node_that_booted_after_its_looks_is_looked_at_again(tmp_path: Path) -> None:
    with bench(tmp_path, resume_kill_task_failed=True) as b:
        killed(b)
        notes(b, "n1", CLEAR)
        b.report("n1", b.fine())
        for _ in range(2):
            b.offset += timedelta(seconds=30)
            asyncio.run(b.tick())
            answer(b)
        assert out(b)
        b.report("n1", b.fine(), boot_id="boot-b", incarnation="b")
        asyncio.run(b.tick())
        assert out(b)


def test_the_same_node_is_not_given_back_to_the_same_trouble_without_end(tmp_path: Path) -> None:
    with bench(tmp_path, resume_kill_task_failed=True, kill_failed_hourly=9) as b:
        backs = 0
        for job in range(40, 46):
            killed(b)
            notes(b, "n1", CLEAR, job=job)
            b.report("n1", b.fine())
            looked(b, "n1", 5)
            backs += not out(b)
            if not out(b):
                continue
            assert ("n1", "kill_task_failed_again") in b.incidents()
            break
        assert backs == 2, "by itself twice a day, then a person looks"


def test_what_a_roll_out_shows_everywhere_makes_no_drain_stricter(tmp_path: Path) -> None:
    with bench(tmp_path, count=10) as b:
        b.report("n1", b.lost(code="ecc_old"))
        asyncio.run(b.tick())
        asyncio.run(b.tick())
        for i in range(1, 11):
            findings = [b.lost(code="part_broken")] + ([b.lost(code="ecc_old")] if i == 1 else [])
            b.report(f"n{i}", *findings)
        asyncio.run(b.tick())
        record = b.core.records.open_drains("sim")["n1"]
        assert ("", "many_part_broken") in b.incidents()
        assert (record.codes, record.step) == (("ecc_old",), "verify")


def test_a_reason_that_slurm_did_not_take_twice_is_still_ours(tmp_path: Path) -> None:
    with bench(tmp_path, count=10) as b:
        b.report("n1", b.lost(code="ecc_old"))
        asyncio.run(b.tick())
        asyncio.run(b.tick())
        first = b.slurm.table["n1"].reason
        assert first is not None
        real = b.slurm.set_reason
        b.slurm.set_reason = lambda *_: None  # type: ignore[method-assign]
        b.report("n1", b.lost(code="ecc_old"), b.lost(code="part_broken"))
        asyncio.run(b.tick())
        b.report("n1", b.lost(code="ecc_old"), b.lost(code="part_broken"), b.lost(code="gpu_lost"))
        asyncio.run(b.tick())
        b.slurm.set_reason = real  # type: ignore[method-assign]
        b.offset += timedelta(seconds=120)
        b.report("n1", b.fine())
        asyncio.run(b.tick())
        record = b.core.records.open_drains("sim")["n1"]
        shown = b.slurm.table["n1"].reason
        assert shown is not None and shown.text == record.reason != first.text


def test_a_note_goes_when_nobody_wants_it_any_more(tmp_path: Path) -> None:
    """The site switched annotate off and started the server again."""
    with bench(tmp_path) as b:
        comment = "rack 7 [nodevet finding: gpu_lost GPU 3]"
        b.slurm.table["n1"] = replace(
            b.slurm.table["n1"], flags=frozenset({"DRAIN"}), comment=comment, reason=Reason("cable (bob)", "bob")
        )
        b.report("n1", b.lost())
        asyncio.run(b.tick())
        assert b.slurm.table["n1"].comment == "rack 7"


def test_a_node_in_repair_is_not_given_back_by_an_undo_or_by_force(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        asyncio.run(b.tick())
        (row,) = asyncio.run(b.control.drain("n1", "fan 3 is noisy", "ann"))
        asyncio.run(b.control.service.repair("n1", "T-12", "fan", "bob"))
        (row,) = asyncio.run(b.control.desk.undo(row.operation, "ann", dry_run=False))
        assert row.outcome == "refused" and "T-12" in row.why and out(b)
        (row,) = asyncio.run(b.control.resume("n1", "ann", verify=False, force=True))
        assert row.outcome == "refused" and "T-12" in row.why and out(b)


def test_an_end_of_slurms_own_drain_is_not_undone_and_it_is_said_why(tmp_path: Path) -> None:
    with bench(tmp_path, resume_kill_task_failed=True) as b:
        killed(b)
        notes(b, "n1", CLEAR)
        b.report("n1", b.fine())
        looked(b, "n1", 5)
        assert not out(b)
        number = b.control.desk.operations(None, "controller", None, 5)[0].id
        (row,) = asyncio.run(b.control.desk.undo(number, "ann", dry_run=False))
        assert row.outcome == "refused" and "slurm's own" in row.why and not out(b)
