"""A job is admitted, refused with a permit only, and never refused for trouble of our own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from checks.wire import PermitAnswer
from deploy.simcluster.host import SimHost
from tests.daemon.agent.central_server import Mode, Service, until
from tests.daemon.agent.running import RunningAgent

MakeAgent = Callable[..., RunningAgent]


def started(make_agent: MakeAgent, service: Service) -> RunningAgent:
    agent = make_agent(service.url)
    agent.start()
    until(lambda: agent.status().uplink.state == "connected", what="connection")
    return agent


def broken(agent: RunningAgent, host: SimHost) -> None:
    host.inject("gpu_lost", gpu=3)
    agent.request("POST", "/v1/check")
    assert agent.status().verdict == "faulty"


def test_a_healthy_node_admits(agent: RunningAgent) -> None:
    answer = agent.hook()
    assert (answer.status, answer.exit) == (200, 0)
    assert answer.text == "nodevet: admitted"
    until(lambda: any(r.occasion == "prolog" for r in agent.on_disk()), what="report on disk")
    report = next(r for r in agent.on_disk() if r.occasion == "prolog")
    assert report.job is not None and report.job.key == "42.0"
    assert report.job.gpu_minors == (0, 1)
    assert report.decision is not None and (report.decision.wanted, report.decision.allowed) == ("admit", "admit")


def test_a_fault_is_refused_with_a_permit_and_on_disk_first(
    make_agent: MakeAgent, service: Service, host: SimHost
) -> None:
    agent = started(make_agent, service)
    broken(agent, host)
    answer = agent.hook()
    agent.stop(9)
    assert answer.exit == 1, answer
    assert "gpu" in answer.text
    refused = [r for r in agent.on_disk() if r.occasion == "prolog"]
    assert len(refused) == 1
    decision = refused[0].decision
    assert decision is not None and (decision.wanted, decision.allowed, decision.permit) == ("refuse", "refuse", "p1")
    assert service.permits[0].job.key == "42.0"
    assert service.permits[0].findings and all(f.status == "fail" for f in service.permits[0].findings)


def test_without_a_permit_the_job_is_admitted_loudly(make_agent: MakeAgent, service: Service, host: SimHost) -> None:
    agent = started(make_agent, service)
    service.permit = lambda _: PermitAnswer(granted=False, why="3 of 3 nodes drained already")
    broken(agent, host)
    answer = agent.hook()
    assert answer.exit == 0
    assert "3 of 3 nodes drained already" in answer.text
    assert "event=admitted_on_fault" in agent.log
    until(lambda: any(r.occasion == "prolog" for r in service.reports), what="report")
    decision = next(r for r in service.reports if r.occasion == "prolog").decision
    assert decision is not None and (decision.wanted, decision.allowed) == ("refuse", "admit")


@pytest.mark.parametrize("mode", ["500", "garbage", "hang", "drip", "forbidden", "close"])
def test_a_service_in_trouble_never_holds_or_refuses_a_job(
    make_agent: MakeAgent, service: Service, host: SimHost, mode: Mode
) -> None:
    agent = started(make_agent, service)
    broken(agent, host)
    service.mode = mode
    answer = agent.hook()
    assert answer.exit == 0
    assert answer.seconds < 7
    assert "no permit" in answer.text


def test_a_service_that_is_away_costs_nothing(make_agent: MakeAgent, service: Service, host: SimHost) -> None:
    agent = started(make_agent, service)
    broken(agent, host)
    service.close()
    answer = agent.hook()
    assert answer.exit == 0
    assert "no permit and no lease" in answer.text


def test_the_same_attempt_gets_the_same_answer_once(make_agent: MakeAgent, service: Service, host: SimHost) -> None:
    agent = started(make_agent, service)
    broken(agent, host)
    first = agent.hook()
    service.permit = lambda _: PermitAnswer(granted=False)
    assert agent.hook().exit == first.exit == 1
    assert len(service.permits) == 1
    third = agent.hook(SLURM_JOB_RESTART_COUNT="1")
    assert third.exit == 0, third
    assert len(service.permits) == 2, (third, agent.log)


def test_an_epilog_ends_the_attempt_of_a_slurm_without_restart_counts(
    make_agent: MakeAgent, service: Service, host: SimHost
) -> None:
    agent = started(make_agent, service)
    old: dict[str, Any] = {"SLURM_JOB_RESTART_COUNT": None, "SLURM_JOB_GPUS": None}
    broken(agent, host)
    assert agent.hook(**old).exit == 1
    host.heal("gpu_lost")
    agent.request("POST", "/v1/check")
    assert agent.hook(**old).exit == 1
    assert agent.hook("epilog", **old).exit == 0
    assert agent.hook(**old).exit == 0


def test_the_stop_file_keeps_hands_off(make_agent: MakeAgent, service: Service, host: SimHost) -> None:
    agent = started(make_agent, service)
    broken(agent, host)
    (agent.base / "STOP").touch()
    assert agent.hook().exit == 0
    assert service.permits == []


def test_only_this_jobs_gpus_are_looked_at(agent: RunningAgent, host: SimHost) -> None:
    """Two jobs of one user share the node: what is left on the GPUs of one is nothing to the other."""
    host.inject("leftover_process", gpu=2, pid=90001)
    minor = int(host.nvml.read()["gpu.2.minor"])
    other = (minor + 1) % 8
    agent.hook(SLURM_JOB_ID="1", SLURM_JOB_GPUS=str(other))
    agent.hook(SLURM_JOB_ID="2", SLURM_JOB_GPUS=str(minor))
    agent.hook("epilog", SLURM_JOB_ID="1", SLURM_JOB_GPUS=str(other))
    until(lambda: sum(r.job is not None for r in agent.on_disk()) == 3, what="reports of hooks")
    seen = {
        (r.occasion, r.job.job_id): {f.code for f in r.findings if f.check == "gpu_leftover"}
        for r in agent.on_disk()
        if r.job
    }
    assert "gpu_leftover" in seen["prolog", 2]
    assert "gpu_leftover" not in seen["prolog", 1]
    assert "gpu_leftover" not in seen["epilog", 1]


def test_gpus_without_a_map_are_unknown_and_admitted(agent: RunningAgent) -> None:
    assert agent.hook(SLURM_JOB_GPUS="0,99").exit == 0
    until(lambda: any(r.job for r in agent.on_disk()), what="report")
    report = next(r for r in agent.on_disk() if r.job)
    assert report.job is not None and report.job.gpu_minors is None
    found = [f for f in report.findings if f.code == "job_gpus_unknown"]
    assert [(f.status, f.blame) for f in found] == [("unknown", "self")]


def test_a_hook_of_another_node_is_not_judged(agent: RunningAgent, host: SimHost) -> None:
    broken(agent, host)
    answer = agent.hook(SLURMD_NODENAME="n2")
    assert (answer.exit, answer.text) == (0, "nodevet: node n2 asked the agent of n1, nothing was decided")


def test_health_and_epilog_always_exit_0(make_agent: MakeAgent, service: Service, host: SimHost) -> None:
    agent = started(make_agent, service)
    broken(agent, host)
    assert agent.hook("health").exit == 0
    assert agent.hook("epilog").exit == 0
    assert service.permits == []
    until(lambda: {"health", "epilog"} <= {r.occasion for r in service.reports}, what="reports")


def test_no_word_of_a_user_switches_the_check_off(make_agent: MakeAgent, service: Service, host: SimHost) -> None:
    """E120: whatever a job's comment or extra asks for, what the node is counts; STOP and pause are for others."""
    agent = started(make_agent, service)
    broken(agent, host)
    asked = "healthchecks_prolog=off nodevet=off nodevet:skip"
    words = {f"SLURM_JOB_{name}": asked for name in ("EXTRA", "COMMENT", "NAME", "CONSTRAINTS", "RESERVATION")}
    answer = agent.hook(**words, SPANK_NODEVET="off", SLURM_SPANK_NODEVET="off", NODEVET_STOP="1", NODEVET_OFF="1")
    assert answer.exit == 1, answer
    for count, shared in enumerate((None, "OK", "YES", "NO", "USER"), 1):
        again = agent.hook(SLURM_JOB_RESTART_COUNT=str(count), SLURM_JOB_OVERSUBSCRIBE=shared, SLURM_JOB_EXTRA=asked)
        assert again.exit == 1, (shared, again)
