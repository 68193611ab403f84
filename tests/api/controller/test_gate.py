"""The holder waits for every live member, learns of a refusal, and is never kept past its budget."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from checks.wire import GateAnswer, GateRequest, JobAttempt
from slurm.job import JobState
from tests.api.controller.fake_slurm import Bench, bench

JOB = JobAttempt(job_id=7, restart_count=0, nodes=3)
MEMBERS = ("n1", "n2", "n3")


def hold(wait: float = 5.0) -> GateRequest:
    return GateRequest(cluster="sim", node="n1", job=JOB, members=MEMBERS, hold=True, wait=wait)


def says(node: str, answer: str) -> GateRequest:
    return GateRequest(cluster="sim", node=node, job=JOB, answer=answer)  # type: ignore[arg-type]


async def with_polls(b: Bench, story: asyncio.Task[GateAnswer], *nodes: str) -> GateAnswer:
    """Run a story while these nodes' agents have a poll open."""
    polls = [asyncio.create_task(b.control.orders("sim", n, 30.0)) for n in nodes]
    try:
        return await story
    finally:
        for poll in polls:
            poll.cancel()


def test_it_opens_when_the_last_member_has_answered(tmp_path: Path) -> None:
    with bench(tmp_path) as b:

        async def story() -> GateAnswer:
            holder = asyncio.create_task(b.control.gate(hold()))
            await b.control.gate(says("n2", "admit"))
            await asyncio.sleep(0)
            assert not holder.done()
            await b.control.gate(says("n3", "admit"))
            return await with_polls(b, holder, "n2", "n3")

        answer = asyncio.run(story())
        assert answer == GateAnswer(complete=True)


def test_answers_that_came_before_the_holder_count(tmp_path: Path) -> None:
    with bench(tmp_path) as b:

        async def story() -> GateAnswer:
            await b.control.gate(says("n2", "admit"))
            await b.control.gate(says("n3", "admit"))
            return await b.control.gate(hold(0.05))

        assert asyncio.run(story()).complete


def test_a_member_without_a_poll_is_absent_after_a_second(tmp_path: Path) -> None:
    with bench(tmp_path) as b:

        async def story() -> GateAnswer:
            await b.control.gate(says("n2", "admit"))
            return await b.control.gate(hold())

        started = time.monotonic()
        answer = asyncio.run(story())
        assert answer == GateAnswer(complete=True, absent=("n3",)) and time.monotonic() - started < 4


def test_a_live_silent_member_is_waited_for_only_to_the_deadline(tmp_path: Path) -> None:
    with bench(tmp_path) as b:

        async def story() -> GateAnswer:
            await b.control.gate(says("n2", "admit"))
            return await with_polls(b, asyncio.create_task(b.control.gate(hold(1.5))), "n3")

        answer = asyncio.run(story())
        assert not answer.complete and answer.absent == ("n3",) and b.control.gates.expired == 1


def test_after_a_refusal_the_holder_stays_until_the_job_has_left(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        b.slurm.jobs[7] = JobState(7, "RUNNING")

        async def story() -> GateAnswer:
            holder = asyncio.create_task(b.control.gate(hold()))
            await b.control.gate(says("n2", "refuse"))
            await asyncio.sleep(0.3)
            assert not holder.done(), "the job still runs: letting go now would start its script"
            b.slurm.jobs[7] = JobState(7, "PENDING")
            return await holder

        answer = asyncio.run(story())
        assert answer.refused == ("n2",) and answer.left_running


def test_a_job_cancelled_meanwhile_frees_the_holder(tmp_path: Path) -> None:
    """A live member that is still silent is not waited for once the job has gone: its nodes are free sooner."""
    with bench(tmp_path) as b:
        b.slurm.jobs[7] = JobState(7, "RUNNING")

        async def story() -> GateAnswer:
            holder = asyncio.create_task(b.control.gate(hold(30.0)))
            await b.control.gate(says("n2", "admit"))
            waits = asyncio.create_task(with_polls(b, holder, "n3"))
            await asyncio.sleep(1.5)
            assert not holder.done(), "the job is still there: its last member may yet refuse"
            b.slurm.jobs[7] = JobState(7, "COMPLETING")
            return await waits

        started = time.monotonic()
        answer = asyncio.run(story())
        assert (answer.complete, answer.left_running, answer.refused) == (True, True, ())
        assert b.control.gates.left == 1 and time.monotonic() - started < 20


def test_a_slurm_that_does_not_say_keeps_the_gate_closed(tmp_path: Path) -> None:
    with bench(tmp_path) as b:

        async def story() -> GateAnswer:
            await b.control.gate(says("n2", "admit"))
            return await with_polls(b, asyncio.create_task(b.control.gate(hold(2.5))), "n3")

        answer = asyncio.run(story())
        assert (answer.complete, answer.left_running, answer.absent) == (False, False, ("n3",))


def test_another_attempt_of_the_job_has_a_gate_of_its_own(tmp_path: Path) -> None:
    with bench(tmp_path) as b:

        async def story() -> GateAnswer:
            await b.control.gate(says("n2", "refuse"))
            again = JobAttempt(job_id=7, restart_count=1, nodes=1)
            return await b.control.gate(
                GateRequest(cluster="sim", node="n1", job=again, members=("n1",), hold=True, wait=1.0)
            )

        assert asyncio.run(story()) == GateAnswer(complete=True)
