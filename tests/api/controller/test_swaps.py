"""E08, E41: which part took whose place is told with its drain and its past, and a changed node is looked at."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import msgspec

from api.service_port import SwapView
from checks.wire import Batch, Decision, NodeFacts, Part, Report
from tests.api.controller.fake_slurm import Bench, bench
from tests.api.controller.test_looks import asked


def gpu(serial: str, slot: str = "0000:19:00.0") -> Part:
    return Part(kind="gpu", slot=slot, uuid=f"GPU-{serial}", serial=serial, model="H100")


def shows(b: Bench, node: str, *parts: Part) -> None:
    """The agent says which parts stand in its node."""
    b._sequence += 1
    made = Report(
        cluster="sim",
        node=node,
        incarnation="a",
        sequence=b._sequence,
        occasion="interval",
        started_at=b.now(),
        seconds=0.1,
        decision=Decision(verdict="healthy", wanted="admit"),
        boot_id="boot-a",
        facts=NodeFacts(gpus=tuple(p.uuid for p in parts if p.kind == "gpu"), parts=parts),
    )
    b.store.ingest(Batch(cluster="sim", node=node, incarnation="a", reports=(made,)), b.now())


def swaps(b: Bench) -> list[SwapView]:
    return b.control.service.swaps(3600.0)


def one(b: Bench) -> tuple[str, str, str, str, str]:
    [found] = swaps(b)
    old = found.old.serial if found.old else ""
    return found.node, old, found.new.serial, found.drain, found.verified


def test_what_stands_there_at_first_sight_or_stays_is_no_swap(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        shows(b, "n1", gpu("1"), gpu("2", "0000:3b:00.0"))
        shows(b, "n1", gpu("1"))
        shows(b, "n1", gpu("1"), gpu("2", "0000:3b:00.0"))
        assert swaps(b) == []
        assert [(p.serial, p.until) for p in b.control.service.parts("sim", "n1")] == [("1", None), ("2", None)]


def test_two_gpus_of_one_board_with_one_serial_number_never_replace_each_other(tmp_path: Path) -> None:
    """On GB200 two GPUs and their processor are one board and share its number; firmware may change under it."""
    first = Part(kind="gpu", slot="0008:01:00.0", uuid="GPU-a", serial="165", firmware="97.00.A")
    second = msgspec.structs.replace(first, slot="0009:01:00.0", uuid="GPU-b")
    with bench(tmp_path) as b:
        for firmware in ("97.00.A", "97.00.B", "97.00.C"):
            shows(b, "n1", *(msgspec.structs.replace(p, firmware=firmware) for p in (first, second)))
        assert swaps(b) == []
        assert [(p.uuid, p.until) for p in b.control.service.parts("sim", "n1")] == [("GPU-a", None), ("GPU-b", None)]
        shows(b, "n1", first, msgspec.structs.replace(second, uuid="GPU-c"))
        [found] = swaps(b)
        assert (found.old.uuid if found.old else "", found.new.uuid) == ("GPU-b", "GPU-c")


def test_a_swap_on_a_serving_node_is_said_and_looked_at(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        shows(b, "n1", gpu("1"))
        asyncio.run(b.tick())
        shows(b, "n1", gpu("7"))

        async def story() -> None:
            await b.tick()
            assert one(b) == ("n1", "1", "7", "", "pending")
            notes = await asked(b)
            assert set(notes) == {"n1"}
            b.report("n1", b.fine(), occasion="manual", notes=(notes["n1"],))
            await b.tick()

        asyncio.run(story())
        assert one(b)[-1] == "verified"
        assert [(a.subject, a.detail) for a in b.store.audit_log() if a.action == "parts changed"] == [
            ("n1", "part swapped: gpu in 0000:19:00.0 is 7 now")
        ]
        assert [(p.serial, p.until is None) for p in b.control.service.parts("sim", "n1")] == [
            ("7", True),
            ("1", False),
        ]


def test_a_swap_after_a_drain_names_it_and_is_verified_with_it(tmp_path: Path) -> None:
    with bench(tmp_path, verify_rounds=1) as b:
        shows(b, "n2", gpu("1"))
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        asyncio.run(b.tick())
        b.offset += timedelta(seconds=10)
        shows(b, "n2", gpu("7"))
        b.report("n2", b.fine())

        async def story() -> None:
            await b.tick()
            assert one(b) == ("n2", "1", "7", "gpu_lost", "pending")
            for order in await b.control.orders("sim", "n2", 0.0):
                b.report("n2", b.fine(), occasion="manual", notes=(f"order:{order.id}",))
            b.offset += timedelta(seconds=10)
            await b.tick()

        asyncio.run(story())
        assert one(b)[-1] == "verified"


def test_a_swap_under_a_persons_word_without_verification_says_so(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        shows(b, "n2", gpu("1"))
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        b.offset += timedelta(seconds=10)
        shows(b, "n2", gpu("7"))
        b.offset += timedelta(seconds=10)
        asyncio.run(b.control.resume("n2", "ann", verify=False, force=True))
        assert one(b)[-1] == "unverified"


def test_a_part_that_moved_says_where_it_was_and_why_its_node_was_drained(tmp_path: Path) -> None:
    """A GPU that was taken out of one node for ECC errors must not begin a new life in another unseen."""
    with bench(tmp_path) as b:
        shows(b, "n2", gpu("1"))
        shows(b, "n3", gpu("3"))
        b.report("n2", b.lost(code="ecc_old"))
        asyncio.run(b.tick())
        b.offset += timedelta(seconds=10)
        shows(b, "n2", gpu("9"))
        b.offset += timedelta(seconds=10)
        shows(b, "n3", gpu("1"))
        moved = next(s for s in swaps(b) if s.node == "n3")
        assert moved.old is not None and (moved.old.serial, moved.new.serial) == ("3", "1")
        assert moved.came_from.startswith("was in n2 (0000:19:00.0) until ")
        assert moved.came_from.endswith(", drained there for ecc_old")


def test_a_part_that_is_seen_in_another_node_has_left_the_first(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        shows(b, "n2", gpu("1"))
        shows(b, "n3", gpu("1", "0000:3b:00.0"))
        assert [p.until is None for p in b.control.service.parts("sim", "n2")] == [False]
        [moved] = swaps(b)
        assert moved.old is None and moved.came_from.startswith("was in n2")


def test_adapters_and_boards_are_parts_too(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        board, hca = Part(kind="board", slot="board", serial="S1"), Part(kind="hca", slot="0000:1a:00.0", uuid="a:1")
        shows(b, "n1", board, hca)
        shows(b, "n1", Part(kind="board", slot="board", serial="S2"), Part(kind="hca", slot="0000:1a:00.0", uuid="a:2"))
        assert {(s.new.kind, s.new.serial or s.new.uuid) for s in swaps(b)} == {("board", "S2"), ("hca", "a:2")}


def test_another_adapter_in_a_drained_node_begins_its_verification_anew(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        shows(b, "n2", gpu("1"), Part(kind="hca", slot="0000:1a:00.0", uuid="a:1"))
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        asyncio.run(b.tick())
        b.report("n2", b.fine())

        async def story() -> None:
            await b.tick()
            for order in await b.control.orders("sim", "n2", 0.0):
                b.report("n2", b.fine(), occasion="manual", notes=(f"order:{order.id}",))
            await b.tick()
            assert b.core.records.open_drains("sim")["n2"].rounds == 1
            b.offset += timedelta(seconds=10)
            shows(b, "n2", gpu("1"), Part(kind="hca", slot="0000:1a:00.0", uuid="a:2"))
            await b.tick()

        asyncio.run(story())
        record = b.core.records.open_drains("sim")["n2"]
        assert (record.rounds, record.part) == (0, "part swapped: hca in 0000:1a:00.0 is a:2 now")


def test_a_restart_between_swap_and_look_loses_nothing(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        shows(b, "n1", gpu("1"))
        shows(b, "n1", gpu("7"))
    with bench(tmp_path) as b:
        asyncio.run(b.tick())
        assert set(asyncio.run(asked(b))) == {"n1"}
        b.control.done(tuple(o.id for o in asyncio.run(b.control.orders("sim", "n1", 0.0))))


def test_hostile_parts_are_bounded(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        many = [Part(kind="gpu", slot=f"s{i}", serial=str(i)) for i in range(400)]
        shows(b, "n1", Part(kind="soul", slot="x", serial="1"), gpu("a\nb" * 200, "\x1b[31m"), *many)
        found = b.control.service.parts("sim", "n1")
        assert 0 < len(found) <= 256 and all(p.kind == "gpu" and len(p.serial) <= 128 for p in found)
        assert not any("\n" in p.serial or "\x1b" in p.slot for p in found)
