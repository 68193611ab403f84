"""Each move of a node is stored once with its evidence, audited, and outlives a restart."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from api.controller.fence import Fenced
from api.controller.service_book import ServiceBook
from api.service_port import STATES
from slurm.state import NodeState
from tests.api.controller.fake_slurm import Bench, bench
from tests.api.controller.test_verify import answer_order


def moves(b: Bench, node: str = "n2") -> list[tuple[str, str]]:
    return [(m.old, m.new) for m in reversed(b.control.service.moves("sim", node, None, 100))]


def tick(b: Bench, times: int = 1) -> None:
    for _ in range(times):
        asyncio.run(b.tick())


def state(b: Bench, node: str = "n2") -> str:
    return b.control.service.states()[node]


def test_the_whole_way_out_and_back(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        tick(b)
        b.slurm.table["n2"] = replace(b.slurm.table["n2"], base="MIXED")
        b.report("n2", b.lost())
        tick(b, 2)
        assert state(b) == "draining"
        b.slurm.table["n2"] = replace(b.slurm.table["n2"], base="IDLE")
        tick(b)
        b.report("n2", b.fine())

        async def story() -> None:
            for _ in range(4):
                await b.tick()
                await answer_order(b, "n2")

        asyncio.run(story())
        tick(b)
        b.offset += timedelta(days=1, minutes=1)
        tick(b, 2)
        assert moves(b) == [
            ("", "in_service"),
            ("in_service", "draining"),
            ("draining", "drained"),
            ("drained", "verifying"),
            ("verifying", "probation"),
            ("probation", "in_service"),
        ]
        audited = [(a.subject, a.detail.partition(":")[0]) for a in b.store.audit_log() if a.action == "service state"]
        assert ("n2", "drained -> verifying") in audited and len(audited) == 5


def test_evidence_says_what_a_move_was_derived_from(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        tick(b)
        b.report("n2", b.lost())
        tick(b, 2)
        record = b.core.records.open_drains("sim")["n2"]
        last = b.control.service.moves("sim", "n2", None, 1)[0]
        assert last.evidence == {
            "slurm_state": "IDLE+DRAIN",
            "reason": record.reason,
            "drain": record.token,
            "drain_state": "drained",
            "codes": "gpu_lost",
            "boot_id": "boot-a",
        }


def test_a_restart_goes_on_from_the_rows_and_repeats_no_move(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        tick(b)
        b.report("n2", b.lost())
        tick(b, 2)
        before, table = moves(b), dict(b.slurm.table)
        since = b.control.service.of("sim", "n2")
    with bench(tmp_path) as b:
        b.slurm.table = table
        tick(b, 2)
        again = b.control.service.of("sim", "n2")
        assert moves(b) == before and since is not None and again is not None
        assert (again.state, again.since) == ("drained", since.since)


def test_what_happened_between_two_looks_is_told(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        tick(b)
        b.slurm.set("n2", "drain", "Kill task failed")
        tick(b)
        assert moves(b)[1:] == [("in_service", "draining"), ("draining", "drained")]
        first = b.control.service.moves("sim", "n2", None, 10)[1]
        assert first.why == "between two looks, on the way to drained"


def test_a_closed_guard_leaves_a_suspect_and_says_why(tmp_path: Path) -> None:
    from checks.judge.guard import GuardLimits

    with bench(tmp_path, guard=GuardLimits(drained_least=0, drained_share=0.0)) as b:
        b.report("n2", b.lost())
        tick(b)
        found = b.control.service.of("sim", "n2")
        assert found is not None and found.state == "suspect" and "not drained:" in found.why


def test_a_fault_that_waits_for_its_second_sight_makes_a_suspect(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        policy = b.core.policy
        rule = replace_rule(b)
        b.core.policy = rule
        b.report("n2", b.lost(code="ecc_old", target="GPU 3"))
        tick(b)
        found = b.control.service.of("sim", "n2")
        assert found is not None and found.state == "suspect" and found.why.endswith("seen 1 of 2 times")
        b.report("n2", b.fine())
        tick(b)
        assert state(b) == "in_service"
        b.core.policy = policy


def replace_rule(b: Bench):  # type: ignore[no-untyped-def]
    import msgspec

    codes = dict(b.core.policy.codes)
    codes["ecc_old"] = msgspec.structs.replace(codes["ecc_old"], confirm=2)
    return msgspec.structs.replace(b.core.policy, codes=codes)


def test_silenced_and_shadowed_faults_make_no_suspect(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        b.report("n1", b.lost(code="shadowed"))
        b.report("n2", b.lost())
        asyncio.run(
            b.control.silence(check="gpu_health", nodes="n2", partition="", seconds=600, reason="known", actor="ann")
        )
        tick(b)
        assert (state(b, "n1"), state(b, "n2")) == ("in_service", "in_service")


def test_a_node_that_slurm_forgets_is_retired_after_a_week_also_over_a_restart(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        tick(b)
        del b.slurm.table["n2"]
        tick(b)
        assert state(b) == "in_service"
    with bench(tmp_path) as b:
        del b.slurm.table["n2"]
        b.offset = timedelta(days=7, minutes=1)
        tick(b)
        assert state(b) == "retired"
        b.slurm.table["n2"] = NodeState("n2", "IDLE", partitions=("main",))
        tick(b)
        assert state(b) == "in_service"


def test_many_nodes_that_move_alike_are_one_line_of_the_audit(tmp_path: Path) -> None:
    with bench(tmp_path, count=8) as b:
        tick(b)
        for name, node in b.slurm.table.items():
            b.slurm.table[name] = replace(node, flags=frozenset({"MAINT", "RESERVED"}))
        tick(b)
        [line] = [a for a in b.store.audit_log() if a.action == "service state"]
        assert (line.subject, line.detail) == ("n[1-8]", "in_service -> held: maintenance reservation")


def test_every_state_is_counted_for_metrics(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        b.slurm.set("n1", "drain", "bob", user="bob")
        tick(b)
        told = {s: b.control.metrics()[f'service_nodes{{state="{s}"}}'] for s in STATES}
        assert told == {**dict.fromkeys(STATES, 0.0), "held": 1.0, "in_service": 3.0}


def test_one_sentence_says_what_brings_it_back(tmp_path: Path) -> None:
    """Rule 11."""
    with bench(tmp_path, count=6) as b:
        b.slurm.set("n1", "drain", "bob", user="bob")
        b.slurm.set("n3", "drain", "Kill task failed")
        b.report("n2", b.lost())
        b.report("n4", b.lost(code="part_broken"))
        tick(b, 2)
        ways = {n: v.way for n in b.slurm.table if (v := b.control.service.of("sim", n))}
        assert ways == {
            "n1": "whoever drained it resumes it",
            "n2": "mend it; 2 clean verifications in a row then resume it",
            "n3": "slurm's own drain: see that nothing of the job is left, or reboot; "
            "then scontrol update nodename=… state=resume",
            "n4": "mend it; then nodevet resume",
            "n5": "",
            "n6": "",
        }


def test_probation_shows_until_when_and_the_strikes(tmp_path: Path) -> None:
    with bench(tmp_path, verify_rounds=1) as b:
        b.report("n2", b.lost())
        tick(b, 2)
        b.report("n2", b.fine())

        async def story() -> None:
            await b.tick()
            await answer_order(b, "n2")
            await b.tick()
            await b.tick()

        asyncio.run(story())
        [found] = b.control.service.watched()
        assert found.node == "n2" and found.state == "probation" and found.probation_until is not None
        assert [(s.what, s.drains, s.score, s.limit) for s in found.strikes] == [
            ("gpu_lost", 1, 1.0, 2.2),
            ("any fault", 1, 1.0, 3.6),
        ]
        b.offset = timedelta(days=7)
        again = b.control.service.of("sim", "n2")
        assert again is not None and again.strikes[0].score == 0.5 and again.probation_until is None


def test_old_moves_go_with_the_rest_of_history(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        tick(b)
        assert b.store.prune(180.0) == 0
        b.store.prune(180.0, b.now() + timedelta(days=181))
        assert moves(b) == [] and state(b) == "in_service"


def test_a_server_that_stands_by_shows_what_the_leader_writes(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        tick(b)
        other = ServiceBook(b.database, "sim", b.core.fence)
        row = other.rows()["n2"]
        other.write([replace(row, state="held", why="the other server wrote this")], [], b.now())
        assert state(b) == "in_service"
        b.control.service.stand_by()
        assert state(b) == "held"


def test_a_server_whose_lease_is_gone_writes_no_state(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        tick(b)
        row = b.control.service.book.rows()["n2"]
        b.core.fence.release()
        with pytest.raises(Fenced):
            b.control.service.book.write([replace(row, state="held")], [], b.now())
