"""Budgets, attempts, answers, frames and what is rescued of a broken configuration, as values."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from checks.wire import JobAttempt, Limits
from daemon.agent.answers import Answer, Answers
from daemon.agent.attempt import attempt_of
from daemon.agent.budget import budget
from daemon.agent.frames import Frame, Unpacker, pack
from daemon.agent.rescue import rescue
from daemon.config import AgentSettings
from slurm.jobenv import JobEnv


@pytest.mark.parametrize(
    ("limit", "remaining", "answer"),
    [
        (None, None, 7.0),
        (8.0, None, 7.0),
        (4.0, None, 3.0),
        (60.0, None, 7.0),
        (None, "3.300", 3.0),
        (8.0, "nan", 7.0),
        (8.0, "-1", 7.0),
        (8.0, "x" * 100, 7.0),
        (1.0, None, 0.5),
        (None, "0.1", 0.5),
    ],
)
def test_budgets_lie_inside_each_other(limit: float | None, remaining: str | None, answer: float) -> None:
    limits = None if limit is None else Limits(budget=limit)
    made = budget(AgentSettings(), limits, remaining)
    assert made.answer == pytest.approx(answer)
    assert made.for_gate < made.answer
    assert made.for_permit < made.answer
    assert made.for_refresh <= made.answer / 2


GRES = "NodeName=n[1-4] Name=gpu Type=h100 File=/dev/nvidia[4-7,0-3]\n"


@pytest.mark.parametrize(
    ("variables", "minors"),
    [
        ({"SLURM_JOB_GPUS": "0,1"}, (4, 5)),
        ({"SLURM_JOB_GPUS": "4-6"}, (0, 1, 2)),
        ({}, ()),
        ({"SLURM_JOB_GPUS": "0,8"}, None),
        ({"SLURM_JOB_GPUS": "$(id)"}, None),
        ({"SLURM_JOB_GPUS": "0", "SLURMD_NODENAME": "n9"}, None),
    ],
)
def test_a_jobs_gpus_are_minors_of_gres_conf(variables: dict[str, str], minors: tuple[int, ...] | None) -> None:
    env = JobEnv.parse({"SLURM_JOB_ID": "5", "SLURM_JOB_RESTART_COUNT": "0", **variables})
    job, why = attempt_of(env, GRES, variables.get("SLURMD_NODENAME", "n1"))
    assert job is not None and job.gpu_minors == minors
    assert bool(why) is (minors is None)


def test_an_old_slurm_says_nothing_about_gpus_by_saying_nothing() -> None:
    job, why = attempt_of(JobEnv.parse({"SLURM_JOB_ID": "5"}), GRES, "n1")
    assert job is not None and job.gpu_minors is None
    assert "does not tell" in why


@pytest.mark.parametrize(
    ("nodes", "variables", "minors"),
    [
        ("3", {}, None),
        ("3", {"SLURM_JOB_GPUS": "1"}, (5,)),
        ("1", {}, ()),
    ],
)
def test_a_slurm_that_tells_the_first_node_only_leaves_the_others_unknown(
    nodes: str, variables: dict[str, str], minors: tuple[int, ...] | None
) -> None:
    """RunInJob of 24.11: a node that was told nothing may hold the job's GPUs all the same."""
    env = JobEnv.parse({"SLURM_JOB_ID": "5", "SLURM_JOB_RESTART_COUNT": "0", "SLURM_JOB_NUM_NODES": nodes, **variables})
    job, why = attempt_of(env, GRES, "n1", told=False)
    assert job is not None and job.gpu_minors == minors
    assert ("RunInJob" in why) is (minors is None)


def test_answers_of_former_attempts_are_not_given_again() -> None:
    async def body() -> None:
        now = [0.0]
        answers, made = Answers(lambda: now[0]), iter(range(100))

        async def find() -> Answer:
            return Answer(0, str(next(made)))

        named = JobAttempt(job_id=1, restart_count=0)
        nameless = JobAttempt(job_id=2)

        async def ask(job: JobAttempt) -> str:
            return (await answers.task("prolog", job, find)).line

        assert [await ask(named), await ask(named), await ask(nameless)] == ["0", "0", "1"]
        now[0] = 61
        assert [await ask(named), await ask(nameless)] == ["0", "2"]
        answers.ended(2)
        assert await ask(nameless) == "3"
        now[0] = 700
        assert await ask(named) == "4"
        answers.seed("prolog", JobAttempt(job_id=9, restart_count=1), Answer(1, "before"), 30)
        assert await ask(JobAttempt(job_id=9, restart_count=1)) == "before"

    asyncio.run(body())


def test_frames_survive_any_cut() -> None:
    frames = [Frame(n, "op", "text", n * 1.5, bytes(n)) for n in range(20)]
    data = b"".join(map(pack, frames))
    unpacker = Unpacker()
    found = [frame for n in range(0, len(data), 7) for frame in unpacker.feed(data[n : n + 7])]
    assert found == frames
    with pytest.raises(ValueError, match="limit"):
        unpacker.feed(b"\xff\xff\xff\xff")


@pytest.mark.parametrize(
    "text",
    [
        '[agent]\nsocket = "/run/x.sock"\nnode = "n7"\nanswer_bugdet = 3\n',
        '[agent]\nsocket = "/run/x.sock"\nnode = "n7"\ngate_budget = "soon"\n',
        '[agent]\nsocket = "/run/x.sock"\nnode = "n7"\nthis is no toml\n[checks.nope]\nx = 1\n',
        '[agent]\nsocket = "/run/x.sock"\nnode = "n7"\n[checks.gpu_count]\nx = [[[\n',
    ],
)
def test_a_broken_configuration_still_yields_its_paths(tmp_path: Path, text: str) -> None:
    path = tmp_path / "nodevet.toml"
    path.write_text(text)
    path.chmod(0o600)
    found = rescue(path, {}).agent
    assert (found.socket, found.node) == ("/run/x.sock", "n7")
    assert found.answer_budget == 7.0


def test_nothing_is_rescued_from_a_file_that_others_could_have_written(tmp_path: Path) -> None:
    path = tmp_path / "nodevet.toml"
    path.write_text('[agent]\nsocket = "/run/evil.sock"\n')
    path.chmod(0o666)
    assert rescue(path, {}).agent.socket == AgentSettings().socket
    assert rescue(tmp_path / "missing", {"NODEVET_AGENT_SOCKET": "/run/y"}).agent.socket == "/run/y"
