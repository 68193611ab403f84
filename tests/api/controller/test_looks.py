"""After a maintenance nodes are looked at as a whole before they are judged, so many at once; repairs end by a word."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from tests.api.controller.fake_slurm import Bench, bench
from tests.api.controller.test_service import state, tick

MAINT = frozenset({"MAINT", "RESERVED"})


def flags(b: Bench, nodes: str, what: frozenset[str]) -> None:
    for node in nodes.split():
        b.slurm.table[node] = replace(b.slurm.table[node], flags=what)


async def asked(b: Bench, nodes: str = "n1 n2 n3 n4") -> dict[str, str]:
    """The notes by which the looks that are asked for now are answered."""
    found = {n: await b.control.orders("sim", n, 0.0) for n in nodes.split()}
    return {n: f"order:{o[0].id}" for n, o in found.items() if o}


def looks(b: Bench) -> dict[str, str]:
    return {v.node: v.state for v in b.control.service.looks()}


def test_a_maintenance_records_only_and_ends_with_a_look_at_every_node_some_at_a_time(tmp_path: Path) -> None:
    with bench(tmp_path, looks_at_once=2) as b:
        flags(b, "n1 n2 n3", MAINT)
        b.report("n2", b.lost())
        tick(b, 2)
        assert b.slurm.writes == [] and state(b) == "held"
        assert [f.code for f in b.store.current_findings("sim", "n2")] == ["gpu_lost"]
        flags(b, "n1 n2 n3", frozenset())

        async def story() -> None:
            await b.tick()
            notes = await asked(b)
            assert set(notes) == {"n1", "n2"}
            assert b.slurm.writes == [], "what was seen during the maintenance has no consequence"
            assert looks(b) == {"n1": "asked", "n2": "asked", "n3": "waiting"}
            for node, note in notes.items():
                b.report(node, b.fine(), occasion="manual", notes=(note,))
            await b.tick()
            assert set(await asked(b)) == {"n3"}

        asyncio.run(story())
        assert looks(b) == {"n1": "clean", "n2": "clean", "n3": "asked"}
        assert state(b, "n1") == "in_service" and state(b, "n3") == "verifying" and b.slurm.writes == []


def test_a_node_that_fails_its_look_is_judged_as_ever(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        flags(b, "n2", MAINT)
        tick(b)
        flags(b, "n2", frozenset())

        async def story() -> None:
            await b.tick()
            note = (await asked(b))["n2"]
            b.report("n2", b.lost(), occasion="manual", notes=(note,))
            await b.tick()

        asyncio.run(story())
        assert looks(b)["n2"] == "bad" and [w[:2] for w in b.slurm.writes] == [("drain", "n2")]


def test_what_is_seen_anew_counts_at_once(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        flags(b, "n2", MAINT)
        tick(b)
        flags(b, "n2", frozenset())
        tick(b)
        b.report("n2", b.lost())
        tick(b)
        assert [w[:2] for w in b.slurm.writes] == [("drain", "n2")]


def test_a_look_that_nobody_answers_is_given_up_and_the_node_judged(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        flags(b, "n2", MAINT)
        b.report("n2", b.lost(observed_at=b.now() - timedelta(seconds=30)))
        tick(b)
        flags(b, "n2", frozenset())
        tick(b)
        assert b.slurm.writes == []
        b.offset = timedelta(seconds=b.core.settings.verify_timeout + 5)
        tick(b)
        assert looks(b)["n2"] == "silent" and [w[:2] for w in b.slurm.writes] == [("drain", "n2")]


def test_a_server_that_was_away_when_the_maintenance_ended_still_looks(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        flags(b, "n2", MAINT)
        tick(b)
    with bench(tmp_path) as b:
        tick(b)
        assert set(asyncio.run(asked(b))) == {"n2"}


def test_a_look_that_was_asked_for_before_a_restart_is_asked_for_again(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        asyncio.run(b.control.unpause("n2", "ann"))
        first = asyncio.run(asked(b))
    with bench(tmp_path) as b:
        tick(b)
        again = asyncio.run(asked(b))
        assert set(again) == {"n2"} and again != first


def test_a_new_boot_is_looked_at_and_a_known_one_is_not(tmp_path: Path) -> None:
    """E08."""
    with bench(tmp_path) as b:
        b.report("n2", b.fine())
        tick(b, 2)
        assert asyncio.run(asked(b)) == {}
        b.report("n2", b.fine(), boot_id="boot-b", incarnation="b")
        tick(b, 2)
        assert set(asyncio.run(asked(b))) == {"n2"}
        assert [v.why for v in b.control.service.looks()] == ["booted since"]


def repair(b: Bench, nodes: str = "n2") -> list[str]:
    return [r.outcome for r in asyncio.run(b.control.service.repair(nodes, "4711", "GPU 3 is replaced", "ann"))]


def drained(b: Bench) -> None:
    b.report("n2", b.lost(code="part_broken"))
    tick(b, 2)
    assert b.slurm.table["n2"].drained


def test_a_repair_has_no_end_but_a_word_and_shows_its_ticket(tmp_path: Path) -> None:
    with bench(tmp_path, verify_rounds=1) as b:
        drained(b)
        assert repair(b) == ["done"]
        b.offset = timedelta(days=400)
        b.report("n2", b.fine())
        tick(b)
        assert state(b) == "repairing"
        [view] = b.control.drains()
        assert view.ticket == "4711" and "in repair, ticket 4711, ann: GPU 3 is replaced" in view.exit
        told = b.control.quiet("sim", "n2")
        assert told is not None and 7 * 86400 <= told.paused <= 14 * 86400 and "ticket 4711" in told.reason
        assert [r.outcome for r in asyncio.run(b.control.pause("n2", 60, "x", "bob"))] == ["unchanged"]

        async def story() -> None:
            rows = await b.control.unpause("n2", "ann")
            assert rows[0].why == "repair ended; resumed when verification is clean"
            await b.tick()
            for order in await b.control.orders("sim", "n2", 0.0):
                b.report("n2", b.fine(), occasion="manual", notes=(f"order:{order.id}",))
            await b.tick()

        asyncio.run(story())
        assert not b.slurm.table["n2"].out_of_service


def test_a_persons_own_drain_is_not_resumed_by_ready(tmp_path: Path) -> None:
    with bench(tmp_path, verify_rounds=1) as b:
        tick(b)
        asyncio.run(b.control.drain("n2", "fan", "ann"))
        assert repair(b) == ["done"]

        async def story() -> None:
            await b.control.unpause("n2", "ann")
            for _ in range(3):
                await b.tick()
                for order in await b.control.orders("sim", "n2", 0.0):
                    b.report("n2", b.fine(), occasion="manual", notes=(f"order:{order.id}",))

        asyncio.run(story())
        assert b.slurm.table["n2"].out_of_service and looks(b)["n2"] == "clean"


def test_a_node_that_serves_jobs_or_is_unknown_is_not_repaired(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        rows = asyncio.run(b.control.service.repair("n1,zz", "4711", "x", "ann"))
        assert [(r.outcome, r.why) for r in rows] == [
            ("refused", "in service: drain it first, with nodevet drain"),
            ("refused", "slurm knows no node zz"),
        ]
        assert b.control.pauses() == []
