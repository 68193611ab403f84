"""What is put right afterwards touches only the attempt that was admitted, and only a prolog error that is ours."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest

from api.store.views import ReportView
from checks.judge.guard import GuardLimits
from checks.wire import Decision, JobAttempt
from slurm.job import JobState
from slurm.reason import Owner, owner_of
from slurm.state import Reason
from tests.api.controller.fake_slurm import Bench, bench


def late_drain(b: Bench, then: Callable[[], None] = lambda: None) -> None:
    """A permit for job 7 on n2 is denied because Slurm is slow; the drain lands a moment later."""
    asyncio.run(b.tick())
    go, real = threading.Event(), b.slurm.drain

    def slow(name: str, reason: str) -> None:
        go.wait(20)
        real(name, reason)

    b.slurm.drain = slow  # type: ignore[method-assign]

    async def story() -> None:
        answer = await b.control.permit(b.request("n2", 7, b.lost()))
        assert not answer.granted
        go.set()
        while not b.slurm.table["n2"].out_of_service:
            await asyncio.sleep(0.01)
        then()
        for _ in range(3):
            await b.tick()

    asyncio.run(story())


def test_the_admitted_attempt_is_requeued_once(tmp_path: Path) -> None:
    with bench(tmp_path, permit_seconds=0.4) as b:
        b.slurm.jobs[7] = JobState(7, "RUNNING", restart_count=0)
        late_drain(b)
        assert b.slurm.requeued == [7]


@pytest.mark.parametrize(
    "job",
    [
        JobState(7, "COMPLETED", restart_count=0),
        JobState(7, "PENDING", restart_count=1),
        JobState(7, "RUNNING", restart_count=1),
        None,
    ],
)
def test_a_job_that_has_ended_or_gone_on_is_not_requeued(tmp_path: Path, job: JobState | None) -> None:
    """A requeue of a COMPLETED job would run it a second time."""
    with bench(tmp_path, permit_seconds=0.4) as b:
        b.slurm.jobs[7] = JobState(7, "RUNNING", restart_count=0)

        def moved_on() -> None:
            if job is None:
                del b.slurm.jobs[7]
            else:
                b.slurm.jobs[7] = job

        late_drain(b, moved_on)
        assert b.slurm.requeued == []


def test_a_denied_job_is_forgotten_when_another_fault_drains_its_node_later(tmp_path: Path) -> None:
    with bench(tmp_path, guard=GuardLimits(drained_least=0, drained_share=0)) as b:
        asyncio.run(b.tick())
        b.slurm.jobs[7] = JobState(7, "RUNNING", restart_count=0)
        assert not asyncio.run(b.control.permit(b.request("n2", 7, b.lost(code="ecc_old")))).granted
        b.core.guard = GuardLimits()
        b.offset = timedelta(hours=5)
        b.report("n2", b.lost())
        for _ in range(3):
            asyncio.run(b.tick())
        assert b.slurm.table["n2"].out_of_service
        assert b.slurm.requeued == []


def refusal(b: Bench, node: str, *, age: float, job: int = 9, code: str = "gpu_lost") -> None:
    """The report of a refusal under a lease, ``age`` seconds old."""
    decision = Decision(
        verdict="faulty", wanted="refuse", allowed="refuse", codes=(code,), reason=f"{code} GPU 3: fell off the bus"
    )
    attempt = JobAttempt(job_id=job, restart_count=0)
    b.report(node, b.lost(code=code), occasion="prolog", decision=decision, job=attempt, age=age)


def prolog_error(b: Bench, node: str, at: datetime | None) -> None:
    """Slurm drains a node as a prolog has failed there."""
    state = b.slurm.table[node]
    b.slurm.table[node] = replace(state, flags=state.flags | {"DRAIN"}, reason=Reason("Prolog error", "slurm", at))


def test_a_refusal_of_this_moment_explains_the_error(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        refusal(b, "n3", age=4.0)
        prolog_error(b, "n3", datetime.now(timezone.utc))
        asyncio.run(b.tick())
        assert owner_of(b.slurm.table["n3"]) is Owner.OURS_AUTOMATIC


def test_a_refusal_of_ten_minutes_ago_explains_nothing_now(tmp_path: Path) -> None:
    """Another prolog of the site failed: taking its drain for ours would end in a resume that nobody asked for."""
    with bench(tmp_path) as b:
        refusal(b, "n3", age=600.0)
        prolog_error(b, "n3", datetime.now(timezone.utc))
        asyncio.run(b.tick())
        assert b.slurm.writes == [] and ("n3", "prolog_error_unexplained") in b.incidents()


def test_a_reason_without_a_time_is_not_taken_for_ours(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        refusal(b, "n3", age=4.0)
        prolog_error(b, "n3", None)
        asyncio.run(b.tick())
        assert b.slurm.writes == []


def test_a_refusal_that_drained_already_explains_no_second_error(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        asyncio.run(b.tick())
        request = b.request("n3", 9, b.lost())
        assert asyncio.run(b.control.permit(request)).granted
        decision = msgspec.structs.replace(request.decision, allowed="refuse")
        b.report("n3", b.lost(), occasion="prolog", decision=decision, job=request.job)
        b.slurm.resume("n3")
        b.report("n3", b.fine())
        asyncio.run(b.tick())
        prolog_error(b, "n3", datetime.now(timezone.utc))
        b.slurm.writes.clear()
        asyncio.run(b.tick())
        assert b.slurm.writes == []


def test_an_error_that_stays_unexplained_is_not_read_again_every_round(tmp_path: Path) -> None:
    with bench(tmp_path, count=50) as b:
        for i in range(1, 51):
            prolog_error(b, f"n{i}", datetime.now(timezone.utc))
        asyncio.run(b.tick())
        read: list[str] = []
        real = b.store.recent_reports

        def counted(cluster: str, node: str, *, limit: int = 20) -> list[ReportView]:
            read.append(node)
            return real(cluster, node, limit=limit)

        b.store.recent_reports = counted  # type: ignore[method-assign]
        for _ in range(3):
            asyncio.run(b.tick())
        assert len(read) <= 50


def test_an_explained_incident_is_closed_when_the_node_is_back(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        prolog_error(b, "n3", datetime.now(timezone.utc))
        asyncio.run(b.tick())
        assert ("n3", "prolog_error_unexplained") in b.incidents()
        b.slurm.resume("n3")
        asyncio.run(b.tick())
        assert ("n3", "prolog_error_unexplained") not in b.incidents()
