"""A gate hears its members only, forgets a former attempt, and stays bounded whoever asks."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from api.controller import gate as gates
from checks.wire import GateAnswer, GateRequest, JobAttempt
from slurm.job import JobState
from tests.api.controller.fake_slurm import bench

ANONYMOUS = JobAttempt(job_id=7, nodes=2)
NAMED = JobAttempt(job_id=7, restart_count=0, nodes=2)


def hold(job: JobAttempt, wait: float = 0.3) -> GateRequest:
    return GateRequest(cluster="sim", node="n1", job=job, members=("n1", "n2"), hold=True, wait=wait)


def says(node: str, answer: str, job: JobAttempt) -> GateRequest:
    return GateRequest(cluster="sim", node=node, job=job, answer=answer)  # type: ignore[arg-type]


@pytest.mark.parametrize("answer", ["admit", "refuse"])
def test_a_stranger_has_no_voice(tmp_path: Path, answer: str) -> None:
    with bench(tmp_path) as b:
        b.slurm.jobs[7] = JobState(7, "RUNNING")

        async def story() -> GateAnswer:
            await b.control.gate(says("n4", answer, NAMED))
            await b.control.gate(says("n2", "admit", NAMED))
            return await b.control.gate(hold(NAMED))

        assert asyncio.run(story()) == GateAnswer(complete=True)


def test_without_a_restart_count_the_next_attempt_hears_nothing_of_the_last(tmp_path: Path) -> None:
    """20.11."""
    with bench(tmp_path) as b:
        b.slurm.jobs[7] = JobState(7, "PENDING")

        async def story() -> GateAnswer:
            await b.control.gate(says("n2", "refuse", ANONYMOUS))
            first = await b.control.gate(hold(ANONYMOUS))
            assert first.refused == ("n2",)
            await b.control.gate(says("n2", "admit", ANONYMOUS))
            return await b.control.gate(hold(ANONYMOUS))

        assert asyncio.run(story()) == GateAnswer(complete=True)


def test_an_admission_of_the_last_attempt_does_not_stand_for_a_refusal_of_this(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        b.slurm.jobs[7] = JobState(7, "PENDING")

        async def story() -> GateAnswer:
            await b.control.gate(says("n2", "admit", ANONYMOUS))
            assert (await b.control.gate(hold(ANONYMOUS))).complete
            holder = asyncio.create_task(b.control.gate(hold(ANONYMOUS, 2.0)))
            await asyncio.sleep(0.05)
            await b.control.gate(says("n2", "refuse", ANONYMOUS))
            return await holder

        assert asyncio.run(story()).refused == ("n2",)


def test_answers_without_a_count_are_forgotten_after_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with bench(tmp_path) as b:
        monkeypatch.setattr(gates, "ANONYMOUS_SECONDS", 0.05)

        async def story() -> GateAnswer:
            await b.control.gate(says("n2", "refuse", ANONYMOUS))
            await asyncio.sleep(0.1)
            return await b.control.gate(hold(ANONYMOUS, 0.1))

        assert asyncio.run(story()).refused == ()


def test_gates_and_names_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "GATES_LIMIT", 100)
    with bench(tmp_path) as b:

        async def story() -> None:
            for i in range(1000):
                await b.control.gate(says("n1", "admit", JobAttempt(job_id=i, restart_count=0)))
            strange = tuple(f"x{i}" for i in range(5000))
            request = GateRequest(cluster="sim", node="n1", job=NAMED, members=strange, hold=True, wait=1.2)
            await b.control.gate(request)

        asyncio.run(story())
        assert len(b.control.gates._gates) <= 100
        assert len(b.core.orders._open) + len(b.core.orders._closed) < 10


def test_a_holder_keeps_its_gate_when_others_are_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gates, "GATES_LIMIT", 10)
    with bench(tmp_path) as b:

        async def story() -> GateAnswer:
            poll = asyncio.create_task(b.control.orders("sim", "n2", 30.0))
            holder = asyncio.create_task(b.control.gate(hold(NAMED, 5.0)))
            await asyncio.sleep(0.05)
            for i in range(100, 150):
                await b.control.gate(says("n1", "admit", JobAttempt(job_id=i, restart_count=0)))
            await b.control.gate(says("n2", "admit", NAMED))
            found = await holder
            poll.cancel()
            return found

        assert asyncio.run(story()) == GateAnswer(complete=True)
