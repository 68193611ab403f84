"""A permit asked for again is the same one only while the node is still out, and hostile wishes change nothing."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from checks.judge.guard import GuardLimits
from checks.wire import Decision, Finding, JobAttempt, PermitRequest
from slurm.reason import Owner, owner_of
from tests.api.controller.fake_slurm import Bench, bench

NOTHING = GuardLimits(drained_least=0, drained_share=0)


def asked(b: Bench, restart_count: int | None = None, *findings: Finding) -> PermitRequest:
    request = b.request("n2", 7, *(findings or (b.lost(),)))
    return msgspec.structs.replace(request, job=JobAttempt(job_id=7, restart_count=restart_count, nodes=1))


@pytest.mark.parametrize("restart_count", [None, 0])
def test_a_permit_of_a_former_attempt_refuses_nothing_on_a_mended_node(
    tmp_path: Path, restart_count: int | None
) -> None:
    """20.11 has no restart count, and a Slurm set up anew counts its jobs from 1."""
    with bench(tmp_path) as b:
        asyncio.run(b.tick())
        assert asyncio.run(b.control.permit(asked(b, restart_count))).granted
        b.slurm.resume("n2")
        asyncio.run(b.tick())
        b.slurm.down()
        answer = asyncio.run(b.control.permit(asked(b, restart_count)))
        assert not answer.granted
        b.slurm.error = None
        again = asyncio.run(b.control.permit(asked(b, restart_count)))
        assert again.granted is (owner_of(b.slurm.table["n2"]) is not None)


def test_a_permit_asked_for_twice_at_once_is_one(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        asyncio.run(b.tick())

        async def both() -> list[Any]:
            return await asyncio.gather(*(b.control.permit(asked(b, 0)) for _ in range(3)))

        answers = asyncio.run(both())
        assert all(a.granted for a in answers) and len({a.permit for a in answers}) == 1
        assert len(b.slurm.writes) == 1


def test_a_repeat_gets_the_drain_that_the_first_question_did_not_live_to_see(tmp_path: Path) -> None:
    with bench(tmp_path, permit_seconds=0.4) as b:
        asyncio.run(b.tick())
        go, real = threading.Event(), b.slurm.drain

        def slow(name: str, reason: str) -> None:
            go.wait(20)
            real(name, reason)

        b.slurm.drain = slow  # type: ignore[method-assign]

        async def story() -> None:
            assert not (await b.control.permit(asked(b, 0))).granted
            go.set()
            assert (await b.control.permit(asked(b, 0))).granted

        asyncio.run(story())
        assert len(b.slurm.writes) == 1


def test_old_findings_get_no_permit(tmp_path: Path) -> None:
    """E104."""
    with bench(tmp_path) as b:
        asyncio.run(b.tick())
        old = b.lost(observed_at=b.now() - timedelta(seconds=b.core.settings.fresh + 60))
        for finding in (old, b.lost(observed_at=None)):
            assert not asyncio.run(b.control.permit(asked(b, 0, finding))).granted
        assert b.slurm.writes == []


@pytest.mark.parametrize(
    "changes",
    [
        {"code": "GPU LOST; reboot"},
        {"code": "x" * 500},
        {"code": ""},
        {"code": "ünï_code"},
        {"observed_at": datetime(2026, 12, 1)},
        {"since": datetime(2026, 12, 1)},
        {"observed_at": datetime.fromisoformat("0001-01-01T00:00:00+14:00")},
        {"seen": 10**40},
        {"message": "\x00\n" * 4000},
    ],
    ids=range(9),
)
def test_hostile_wishes_are_answered_and_keep_nobody_else_waiting(tmp_path: Path, changes: dict[str, Any]) -> None:
    with bench(tmp_path) as b:
        asyncio.run(b.tick())
        request = asked(b, 0, b.lost(**changes))
        wild = Decision(verdict="faulty", wanted="refuse", codes=("y" * 10_000,) * 100, reason="\x00" * 10_000)
        answer = asyncio.run(b.control.permit(msgspec.structs.replace(request, decision=wild)))
        state = b.slurm.table["n2"]
        assert answer.granted is (state.out_of_service)
        assert all(len(c) <= 64 for p in b.core.records.permits_of("sim", "n2", b.now() - timedelta(1))
                   for c in p["codes"])  # fmt: skip
        assert asyncio.run(b.control.permit(b.request("n3", 8, b.lost()))).granted


def test_a_job_with_an_absurd_id_gets_no_permit_and_no_error(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        asyncio.run(b.tick())
        for job in (JobAttempt(job_id=-1), JobAttempt(job_id=10**40), JobAttempt(job_id=1, restart_count=10**50)):
            request = msgspec.structs.replace(b.request("n2", 1, b.lost()), job=job)
            assert not asyncio.run(b.control.permit(request)).granted
        assert b.slurm.writes == []


def test_a_hanging_drain_elsewhere_does_not_cost_another_node_its_permit(tmp_path: Path) -> None:
    with bench(tmp_path, permit_seconds=1.0) as b:
        asyncio.run(b.tick())
        go, real = threading.Event(), b.slurm.drain

        def slow(name: str, reason: str) -> None:
            if name == "n2":
                go.wait(20)
            real(name, reason)

        b.slurm.drain = slow  # type: ignore[method-assign]
        b.report("n2", b.lost(code="ecc_old"))

        async def story() -> bool:
            tick = asyncio.create_task(b.tick())
            await asyncio.sleep(0.3)
            answer = await b.control.permit(b.request("n3", 8, b.lost()))
            go.set()
            await tick
            return answer.granted

        assert asyncio.run(story())


def test_a_used_lease_is_written_down_and_not_taken_for_an_admission(tmp_path: Path) -> None:
    with bench(tmp_path, count=100) as b:

        async def story() -> None:
            await b.control.orders("sim", "n2", 0.0)
            await b.tick()
            await b.tick()
            (lease,) = b.control.leases_for("sim", "n2")
            used = msgspec.structs.replace(asked(b, 0), lease=lease.permit)
            b.core.guard = NOTHING
            answer = await b.control.permit(used)
            assert answer.granted
            assert b.control.leases_for("sim", "n2") == ()
            assert b.core.records.live_leases("sim", b.now()) == []
            assert ("n2", "permit_denied") not in b.incidents()
            stolen = msgspec.structs.replace(b.request("n3", 8, b.lost()), lease=lease.permit)
            assert not (await b.control.permit(stolen)).granted, "another node's lease is none"

        asyncio.run(story())


def test_leases_go_only_to_nodes_that_serve(tmp_path: Path) -> None:
    with bench(tmp_path, count=100) as b:
        b.slurm.set("n2", "drain", "bob", user="root")

        async def story() -> None:
            for node in ("n2", "nobody"):
                await b.control.orders("sim", node, 0.0)
            await b.tick()
            await b.tick()

        asyncio.run(story())
        assert b.core.records.live_leases("sim", b.now()) == []


def test_a_drained_node_is_granted_though_another_hand_drained_it(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        asyncio.run(b.tick())
        b.slurm.set("n2", "drain", "bob", user="root")
        answer = asyncio.run(b.control.permit(asked(b, 0)))
        assert answer.granted and owner_of(b.slurm.table["n2"]) is Owner.OTHER
