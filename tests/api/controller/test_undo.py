"""An operation on a list of nodes has a number, and undoing it touches only what still is as it left it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from api.controller.undo import UndoError
from slurm.hostlist import HostlistError
from slurm.reason import parse
from tests.api.controller.fake_slurm import Bench, bench


def drain(b: Bench, nodes: str, reason: str = "fan 3 is noisy", actor: str = "ann") -> int:
    rows = asyncio.run(b.control.drain(nodes, reason, actor))
    assert rows[0].operation is not None
    return rows[0].operation


def undo(
    b: Bench, number: int | None = None, actor: str = "ann", *, dry_run: bool = False
) -> dict[str, tuple[str, str]]:
    rows = asyncio.run(b.control.desk.undo(number, actor, dry_run=dry_run))
    return {r.node: (r.outcome, r.why) for r in rows}


def out(b: Bench) -> set[str]:
    return {n for n, s in b.slurm.table.items() if s.out_of_service}


def test_a_drain_is_undone_on_the_nodes_that_nobody_touched_since(tmp_path: Path) -> None:
    """Somebody edited the reason of n2 and resumed n3 meanwhile: both are theirs, and it is said."""
    with bench(tmp_path, count=5) as b:
        b.slurm.set("n4", "drain", "cable (bob)")
        drain(b, "n[1-4]")
        assert out(b) == {"n1", "n2", "n3", "n4"}
        b.slurm.set("n2", "reason", "card ordered (bob)")
        b.slurm.resume("n3")
        asyncio.run(b.tick())
        told = undo(b)
        assert out(b) == {"n2", "n4"}
        assert {n: o for n, (o, _) in told.items()} == {
            "n1": "done",
            "n2": "refused",
            "n3": "refused",
            "n4": "refused",
        }
        assert "reason is now 'card ordered (bob)'" in told["n2"][1]
        assert "in service already" in told["n3"][1] and "changed nothing there" in told["n4"][1]
        audit = [(a.actor, a.action, a.subject) for a in b.store.audit_log()]
        assert ("ann", "undo asked", "n[1-4]") in audit and ("ann", "resume", "n1") in audit


def test_a_preview_changes_nothing(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        number = drain(b, "n1,n2")
        writes = list(b.slurm.writes)
        assert {o for o, _ in undo(b, dry_run=True).values()} == {"planned"}
        assert b.slurm.writes == writes and len(b.core.operations.listing(None, None, None, 9)) == 1
        one = b.core.operations.one(number)
        assert one is not None and one.undone_by is None and one.counts == {"done": 2}


def test_the_default_is_the_last_of_the_same_actor_that_was_not_undone(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        first, _, _ = drain(b, "n1"), drain(b, "n2"), drain(b, "n3", actor="bob")
        assert set(undo(b)) == {"n2"} and set(undo(b)) == {"n1"}
        assert out(b) == {"n3"}
        with pytest.raises(UndoError, match="no drain or resume by ann"):
            undo(b)
        listed = b.core.operations.listing(None, "ann", None, 9)
        assert [o.verb for o in listed] == ["undo", "undo", "drain", "drain"]
        assert listed[-1].id == first and listed[-1].undone_by == listed[0].id
        with pytest.raises(UndoError, match="is an undo"):
            undo(b, listed[0].id)
        with pytest.raises(UndoError, match="no operation 99"):
            undo(b, 99)


def test_a_node_that_is_faulty_by_now_is_not_given_back_unlooked(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drain(b, "n1")
        b.report("n1", b.lost())
        outcome, why = undo(b)["n1"]
        assert outcome == "refused" and "is faulty now" in why and out(b) == {"n1"}


def test_a_drain_that_took_over_ours_is_not_undone_into_service(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        b.report("n1", b.lost())
        asyncio.run(b.tick())
        b.report("n1", b.fine())
        drain(b, "n1")
        outcome, why = undo(b)["n1"]
        assert outcome == "refused" and "for a fault before" in why and out(b) == {"n1"}


def test_a_resume_is_undone_by_a_persons_drain_under_the_former_words(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drain(b, "n1,n2")
        asyncio.run(b.tick())
        asyncio.run(b.control.resume("n1,n2", "ann", verify=False))
        assert out(b) == set()
        b.slurm.set("n2", "drain", "cable (bob)")
        asyncio.run(b.tick())
        told = undo(b)
        assert told["n1"][0] == "done" and told["n2"] == ("refused", "is out of service again: 'cable (bob)'")
        reason = b.slurm.table["n1"].reason
        ours = parse(reason.text) if reason else None
        assert ours is not None and ours.detail == "fan 3 is noisy"


def test_a_resume_that_is_still_being_verified_is_called_off(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        drain(b, "n1")
        asyncio.run(b.tick())
        asyncio.run(b.control.resume("n1", "ann"))
        asyncio.run(b.tick())
        assert b.core.records.open_drains("sim")["n1"].resume_by == "ann"
        assert undo(b)["n1"] == ("done", "verification called off, it stays drained")
        record = b.core.records.open_drains("sim")["n1"]
        assert (record.resume_by, record.order_id, record.state) == (None, None, "drained")


def test_what_a_server_that_was_killed_had_begun_is_known_and_undone(tmp_path: Path) -> None:
    """The operation and its nodes stand in the database before Slurm is asked."""
    with bench(tmp_path) as b:

        class Killed(BaseException):
            pass

        real, asked = b.slurm.drain, []

        def drain_then_die(name: str, reason: str) -> None:
            real(name, reason)
            asked.append(name)
            raise Killed

        b.slurm.drain = drain_then_die  # type: ignore[method-assign]
        with pytest.raises(BaseException):  # noqa: B017 - whatever a thread makes of it
            asyncio.run(b.control.drain("n1,n2", "fan", "ann"))
        b.slurm.drain = real  # type: ignore[method-assign]
        assert asked == ["n1"]
        asyncio.run(b.tick())
        assert undo(b)["n1"][0] == "done" and out(b) == set()


def test_partitions_and_features_stand_for_their_nodes(tmp_path: Path) -> None:
    from dataclasses import replace

    with bench(tmp_path) as b:
        b.slurm.table["n2"] = replace(b.slurm.table["n2"], features=("h100",), partitions=("main", "gpu"))
        drain(b, "@gpu,@feature=h100,n4")
        assert out(b) == {"n2", "n4"}
        for wrong in ("@gpus", "@feature=a100", "n1,@", "n[1"):
            with pytest.raises(HostlistError):
                asyncio.run(b.control.drain(wrong, "x", "ann"))
        assert len(b.core.operations.listing(None, None, None, 9)) == 1
