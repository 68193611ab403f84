"""A user is told of a fault under the own job, and of nobody else's."""

from __future__ import annotations

import pytest

from checks.wire import Decision, Finding, JobAttempt
from daemon.agent.answers import Answer
from daemon.agent.tasks import LIMIT, TaskLines
from deploy.simcluster.host import SimHost
from tests.daemon.agent.running import RunningAgent
from tests.daemon.agent.test_socket import as_user, needs_root

SLOW = Finding(target="mlx5_0/1", status="warn", code="ib_port_slow", blame="node", message="/home/secret")
OURS = Finding(target="node", status="unknown", code="lane_silent", blame="self")
JOB = JobAttempt(job_id=42, uid=1001)
BODY = b"SLURM_JOB_ID=42"
DEGRADED = Decision(verdict="degraded", wanted="admit")
LINE = "nodevet: node n1 is degraded (ib_port_slow); your job runs here all the same"


@pytest.mark.parametrize(
    ("decision", "findings", "line"),
    [
        (DEGRADED, (SLOW,), LINE),
        (DEGRADED, (OURS,), ""),
        (Decision(verdict="healthy", wanted="admit"), (), ""),
        (Decision(verdict="unknown", wanted="admit"), (OURS,), ""),
    ],
)
def test_what_is_told(decision: Decision, findings: tuple[Finding, ...], line: str) -> None:
    told = TaskLines()
    told.admitted("n1", JOB, decision, findings)
    assert told.answer(1001, BODY) == Answer(0, line)


@pytest.mark.parametrize(
    ("uid", "body", "line"),
    [(0, BODY, LINE), (1002, BODY, ""), (-1, BODY, ""), (1001, b"SLURM_JOB_ID=43", ""), (1001, b"\0=\0", "")],
)
def test_whose_job_it_is_the_kernel_says(uid: int, body: bytes, line: str) -> None:
    told = TaskLines()
    told.admitted("n1", JOB, DEGRADED, (SLOW,))
    assert told.answer(uid, body).line == line


def test_it_is_forgotten_with_the_job_and_bounded() -> None:
    told = TaskLines()
    told.admitted("n1", JOB, DEGRADED, (SLOW,))
    told.ended(42)
    assert told.answer(1001, BODY).line == ""
    for number in range(1, LIMIT + 10):
        told.admitted("n1", JobAttempt(job_id=number, uid=1001), DEGRADED, (SLOW,))
    assert told.answer(1001, b"SLURM_JOB_ID=1").line == ""
    assert told.answer(1001, f"SLURM_JOB_ID={LIMIT + 9}".encode()).line == LINE


def test_a_job_on_a_faulty_node_without_a_permit(agent: RunningAgent, host: SimHost) -> None:
    host.inject("gpu_lost", gpu=3)
    agent.request("POST", "/v1/check")
    assert agent.hook().exit == 0
    told = agent.raw("taskprolog", BODY)
    assert told.exit == 0 and told.text.startswith("nodevet: node n1 is faulty (")
    agent.hook("epilog")
    assert agent.raw("taskprolog", BODY).text == ""


@needs_root
def test_everybody_may_ask_and_hooks_stay_slurms(agent: RunningAgent) -> None:
    assert as_user(agent, "POST", "/v1/taskprolog")[0] == 200
    assert as_user(agent, "POST", "/v1/unkillable")[0] == 403
