"""The first node of a job waits for the others' answers; the others only tell theirs."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from checks.wire import GateAnswer, GateRequest, Limits, PermitAnswer, PollAnswer
from deploy.simcluster.host import SimHost
from tests.daemon.agent.central_server import Service, until
from tests.daemon.agent.running import Answered, RunningAgent

MakeAgent = Callable[..., RunningAgent]
OPEN = PollAnswer(limits=Limits(gate_possible=True, gate_why_not="", budget=8.0))


def started(make_agent: MakeAgent, service: Service, answer: PollAnswer = OPEN) -> RunningAgent:
    agent = make_agent(service.url)
    service.poll = answer
    agent.start()
    until(lambda: agent.status().uplink.limits is not None or answer.limits is None, what="limits")
    until(lambda: agent.status().uplink.state == "connected", what="connection")
    return agent


def job_of(agent: RunningAgent, nodelist: str, nodes: str = "3", **more: str) -> Answered:
    return agent.hook(SLURM_NODELIST=nodelist, SLURM_JOB_NUM_NODES=nodes, **more)


def causes(service: Service) -> list[tuple[int, int | None, str]]:
    return [(u.job_id, u.restart_count, u.cause) for r in service.reports for u in r.unvetted]


@pytest.mark.parametrize(("complete", "cause"), [(True, "gate_absent"), (False, "gate_expired")])
def test_a_gate_without_all_members_is_told_with_its_cause(
    make_agent: MakeAgent, service: Service, complete: bool, cause: str
) -> None:
    agent = started(make_agent, service)
    service.gate = lambda _: GateAnswer(complete=complete, absent=("n3",))
    assert job_of(agent, "n[1-3]").exit == 0
    until(lambda: causes(service), what="told cause")
    assert causes(service) == [(42, 0, cause)]


def test_the_first_node_holds_until_the_gate_opens(make_agent: MakeAgent, service: Service) -> None:
    agent = started(make_agent, service)

    def hold(request: GateRequest) -> GateAnswer:
        time.sleep(0.7)
        return GateAnswer(complete=True)

    service.gate = hold
    answer = job_of(agent, "n[1-3]")
    assert (answer.exit, answer.text) == (0, "nodevet: admitted")
    assert answer.seconds >= 0.7
    (told,) = service.gates
    assert (told.hold, told.answer, told.members, told.node) == (True, "admit", ("n1", "n2", "n3"), "n1")
    assert told.wait <= 5.0
    assert agent.status().gate["opened"] == 1


def test_the_other_nodes_tell_and_go_on(make_agent: MakeAgent, service: Service) -> None:
    agent = started(make_agent, service)

    def slow(request: GateRequest) -> GateAnswer:
        time.sleep(3)
        return GateAnswer(complete=True)

    service.gate = slow
    answer = job_of(agent, "a[1-2],n1")
    assert answer.exit == 0
    assert answer.seconds < 2.5
    until(lambda: service.gates, what="told gate")
    assert (service.gates[0].hold, service.gates[0].answer) == (False, "admit")


def test_a_refusal_elsewhere_lets_the_holder_go_with_exit_0(make_agent: MakeAgent, service: Service) -> None:
    agent = started(make_agent, service)
    service.gate = lambda _: GateAnswer(complete=True, refused=("n3",), left_running=True)
    answer = job_of(agent, "n[1-3]")
    assert (answer.exit, answer.text) == (0, "nodevet: admitted: job refused on n3")
    assert agent.status().gate["refused_elsewhere"] == 1


def test_a_job_that_has_left_lets_the_holder_go(make_agent: MakeAgent, service: Service) -> None:
    agent = started(make_agent, service)
    service.gate = lambda _: GateAnswer(complete=True, left_running=True, why="job has left its nodes")
    answer = job_of(agent, "n[1-3]")
    assert (answer.exit, "has left its nodes" in answer.text) == (0, True)
    gate = agent.status().gate
    assert (gate["left"], gate["opened"], gate["expired"]) == (1, 0, 0)


def test_a_gate_that_never_opens_admits_within_the_budget_and_is_counted(
    make_agent: MakeAgent, service: Service
) -> None:
    agent = started(make_agent, service)
    service.mode = "hang"
    answer = job_of(agent, "n[1-3]")
    assert answer.exit == 0
    assert answer.seconds < 7
    assert agent.status().gate["expired"] == 1


def test_a_refusing_member_tells_the_gate_before_it_exits(
    make_agent: MakeAgent, service: Service, host: SimHost
) -> None:
    agent = started(make_agent, service)
    host.inject("gpu_lost", gpu=3)
    agent.request("POST", "/v1/check")
    assert job_of(agent, "n[1-3]").exit == 1
    until(lambda: service.gates, what="told gate")
    assert (service.gates[0].hold, service.gates[0].answer) == (False, "refuse")


def test_a_member_without_a_permit_tells_that_it_admits(make_agent: MakeAgent, service: Service, host: SimHost) -> None:
    agent = started(make_agent, service)
    service.permit = lambda _: PermitAnswer(granted=False, why="guard closed")
    host.inject("gpu_lost", gpu=3)
    agent.request("POST", "/v1/check")
    assert job_of(agent, "a1,n1").exit == 0
    until(lambda: service.gates, what="told gate")
    assert service.gates[0].answer == "admit"


def test_there_is_no_gate_where_slurm_would_deadlock(make_agent: MakeAgent, service: Service) -> None:
    closed = PollAnswer(limits=Limits(gate_possible=False, gate_why_not="PrologFlags has Serial"))
    agent = started(make_agent, service, closed)
    assert job_of(agent, "n[1-3]").text == "nodevet: admitted"
    assert service.gates == []


def test_a_job_of_one_node_has_no_gate(make_agent: MakeAgent, service: Service) -> None:
    agent = started(make_agent, service)
    assert agent.hook().exit == 0
    assert service.gates == []


def test_a_short_slurm_budget_shortens_the_gate(make_agent: MakeAgent, service: Service) -> None:
    limits = Limits(gate_possible=True, gate_why_not="", budget=3.0)
    agent = started(make_agent, service, PollAnswer(limits=limits))
    service.mode = "hang"
    answer = job_of(agent, "n[1-3]")
    assert answer.exit == 0
    assert answer.seconds < 3.0
