"""Paused nodes are left alone until their time, and silenced findings are shown and lead to nothing."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from tests.api.controller.fake_slurm import Bench, bench


def pause(b: Bench, nodes: str = "n2", seconds: float = 7200.0) -> None:
    """Pause as an operator does."""
    rows = asyncio.run(b.control.pause(nodes, seconds, "driver update", "ann"))
    assert {r.outcome for r in rows} == {"done"}


def silence(b: Bench, check: str = "gpu_health", nodes: str = "", partition: str = "", seconds: float = 600.0) -> int:
    """Silence as an operator does; gives the number of the first."""
    made = asyncio.run(
        b.control.silence(check=check, nodes=nodes, partition=partition, seconds=seconds, reason="known", actor="ann")
    )
    return made[0].id


def test_a_paused_node_is_neither_drained_nor_given_a_permit(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        asyncio.run(b.tick())
        pause(b)
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        answer = asyncio.run(b.control.permit(b.request("n2", 7, b.lost())))
        assert not answer.granted and "paused by ann until" in answer.why and "driver update" in answer.why
        assert b.slurm.writes == []
        b.report("n3", b.lost())
        asyncio.run(b.tick())
        assert [w[:2] for w in b.slurm.writes] == [("drain", "n3")]


def test_a_paused_node_is_not_resumed(tmp_path: Path) -> None:
    with bench(tmp_path, verify_rounds=1) as b:
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        pause(b)
        b.report("n2", b.fine())
        for _ in range(3):
            asyncio.run(b.tick())
        assert [w[0] for w in b.slurm.writes] == ["drain"]
        assert "paused by ann" in next(d.exit for d in b.control.drains() if d.node == "n2")


def test_a_pause_ends_by_its_time_with_a_verification(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        pause(b, seconds=60)
        assert [p.node for p in b.control.pauses()] == ["n2"]
        b.offset = timedelta(seconds=61)
        assert b.control.pauses() == []
        asyncio.run(b.tick())
        orders = asyncio.run(b.control.orders("sim", "n2", 0.0))
        assert [o.kind for o in orders] == ["verify"]
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        assert [w[:2] for w in b.slurm.writes] == [("drain", "n2")]
        assert [a.action for a in b.store.audit_log()].count("pause ended") == 1


def test_ready_ends_it_and_verifies_also_what_was_not_paused(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        pause(b, "n[1-2]")
        rows = asyncio.run(b.control.unpause("n[2-3]", "bob"))
        assert [(r.node, r.outcome) for r in rows] == [("n2", "done"), ("n3", "unchanged")]
        assert [p.node for p in b.control.pauses()] == ["n1"]
        for node in ("n2", "n3"):
            assert [o.kind for o in asyncio.run(b.control.orders("sim", node, 0.0))] == ["verify"]


def test_a_restarted_server_knows_it_before_it_answers_an_agent(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        pause(b)
    with bench(tmp_path) as b:
        assert b.control.quiet("sim", "n2") is None, "an answer before the first read would end the pause"
        asyncio.run(b.tick())
        told = b.control.quiet("sim", "n2")
        assert told is not None and 7100 < told.paused <= 7200 and told.reason == "driver update"
        other = b.control.quiet("sim", "n1")
        assert other is not None and other.paused == 0
        assert b.control.quiet("elsewhere", "n2") is None


def test_a_second_pause_replaces_the_first(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        pause(b, seconds=60)
        pause(b, "n2,n2", seconds=600)
        assert len(b.control.pauses()) == 1
        b.offset = timedelta(seconds=120)
        asyncio.run(b.tick())
        assert [p.node for p in b.control.pauses()] == ["n2"]


def test_an_open_poll_is_answered_at_once(tmp_path: Path) -> None:
    async def play(b: Bench) -> None:
        polling = asyncio.ensure_future(b.control.orders("sim", "n2", 30.0))
        await asyncio.sleep(0)
        await b.control.pause("n2", 60, "x", "ann")
        assert await asyncio.wait_for(polling, 5) == ()

    with bench(tmp_path) as b:
        asyncio.run(play(b))


@pytest.mark.parametrize(
    ("where", "drained"),
    [
        ({"check": "gpu_health"}, []),
        ({"check": "other"}, ["n2"]),
        ({"check": "", "nodes": "n[2-3]"}, []),
        ({"check": "", "nodes": "n3"}, ["n2"]),
        ({"check": "gpu_health", "nodes": "n2"}, []),
        ({"check": "", "partition": "main"}, []),
        ({"check": "", "partition": "other"}, ["n2"]),
    ],
)
def test_what_is_silenced_drains_nothing(tmp_path: Path, where: dict[str, str], drained: list[str]) -> None:
    with bench(tmp_path) as b:
        asyncio.run(b.tick())
        silence(b, **where)  # type: ignore[arg-type]
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        assert [w[1] for w in b.slurm.writes] == drained
        granted = asyncio.run(b.control.permit(b.request("n2", 7, b.lost()))).granted
        assert granted is bool(drained)


def test_silence_is_loud_opens_no_incident_and_ends(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        b.store.silenced = b.control.silenced
        number = silence(b)
        b.report("n2", b.lost())
        assert b.incidents() == {("", "silenced")}
        assert b.store.node("sim", "n2").verdict == "faulty", "it is shown all the same"  # type: ignore[union-attr]
        assert asyncio.run(b.control.unsilence(number, "ann"))
        assert not asyncio.run(b.control.unsilence(number, "ann"))
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        assert ("n2", "gpu_lost") in b.incidents() and ("", "silenced") not in b.incidents()
        assert [w[0] for w in b.slurm.writes] == ["drain"]


def test_a_silence_ends_by_its_time(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        silence(b, seconds=60)
        b.report("n2", b.lost())
        b.offset = timedelta(seconds=61)
        b.report("n2", b.lost())
        asyncio.run(b.tick())
        assert [w[0] for w in b.slurm.writes] == ["drain"] and b.control.silences() == []


def test_a_silenced_node_holds_no_lease(tmp_path: Path) -> None:
    with bench(tmp_path, count=40, lease_share=1.0) as b:
        b.core.clock = b.now

        async def live() -> None:
            for node in ("n2", "n3"):
                await b.control.orders("sim", node, 0.0)
            await b.tick()

        silence(b, check="gpu_health", nodes="n2")
        asyncio.run(live())
        assert b.control.leases_for("sim", "n2") == () and b.control.leases_for("sim", "n3") != ()
