"""E08: a part that was swapped while its node was drained is seen, said, and verified from the start."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from api.controller.identity import swapped
from checks.wire import Batch, Decision, NodeFacts, Report
from tests.api.controller.fake_slurm import Bench, bench


def facts(b: Bench, *gpus: str, node: str = "n2", boot: str = "boot-a") -> None:
    """The agent says which GPUs stand in its node."""
    b._sequence += 1
    made = Report(
        cluster="sim",
        node=node,
        incarnation="a",
        sequence=b._sequence,
        occasion="interval",
        started_at=b.now(),
        seconds=0.1,
        findings=(),
        decision=Decision(verdict="healthy", wanted="admit"),
        boot_id=boot,
        facts=NodeFacts(gpus=gpus),
    )
    b.store.ingest(Batch(cluster="sim", node=node, incarnation="a", reports=(made,)), b.now())


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (("A", "B"), ("A", "C"), "part swapped: B -> C"),
        (("A", "B"), ("A",), ""),
        (("A",), ("A", "B"), "part swapped: B added"),
        ((), ("A",), ""),
        (("A", "B"), ("C", "D"), "part swapped: A -> C, B -> D"),
    ],
)
def test_only_a_new_part_is_a_swap(before: tuple[str, ...], now: tuple[str, ...], said: str) -> None:
    assert swapped(before, now) == said


def test_a_swap_shows_in_exit_and_audit_and_verification_begins_anew(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        facts(b, "GPU-A", "GPU-B")
        b.report("n2", b.lost())

        async def story() -> None:
            await b.tick()
            await b.tick()
            b.report("n2", b.fine())
            await b.tick()
            for order in await b.control.orders("sim", "n2", 0.0):
                b.report("n2", b.fine(), occasion="manual", notes=(f"order:{order.id}",))
                b.control.done((order.id,))
            await b.tick()
            assert b.core.records.open_drains("sim")["n2"].rounds == 1
            facts(b, "GPU-A", "GPU-C")
            await b.tick()

        asyncio.run(story())
        record = b.core.records.open_drains("sim")["n2"]
        assert record.rounds == 0 and record.part == "part swapped: GPU-B -> GPU-C"
        assert record.part in next(v.exit for v in b.control.drains())
        assert [a.detail for a in b.store.audit_log() if a.action == "part swapped"] == [record.part]


def test_a_node_that_waits_for_a_person_says_it_too(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        facts(b, "GPU-A")
        b.report("n2", b.lost(code="part_broken"))
        asyncio.run(b.tick())
        asyncio.run(b.tick())
        facts(b, "GPU-Z", boot="boot-b")
        asyncio.run(b.tick())
        [view] = b.control.drains()
        assert view.exit.startswith("part swapped: GPU-A -> GPU-Z; rebooted since the drain; mend it")


def test_a_reboot_shows_in_the_way_out(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        facts(b, "GPU-A")
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        asyncio.run(b.tick())
        assert "rebooted" not in b.control.drains()[0].exit
        facts(b, "GPU-A", boot="boot-b")
        asyncio.run(b.tick())
        assert b.control.drains()[0].exit.startswith("rebooted since the drain; mend it")


def test_a_gpu_that_does_not_answer_when_the_node_is_drained_is_remembered(tmp_path: Path) -> None:
    """It is the lost one that gets swapped, and then the agent no longer named it."""
    with bench(tmp_path) as b:
        facts(b, "GPU-A", "GPU-B")
        facts(b, "GPU-A")
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        assert b.core.records.open_drains("sim")["n2"].gpus == ("GPU-A", "GPU-B")
