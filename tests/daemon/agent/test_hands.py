"""A running agent resets what it is ordered to, once, and only where its own configuration lets it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress

from checks.wire import Order, PollAnswer, Remedied
from deploy.simcluster.host import SimHost
from deploy.simcluster.smi import install
from tests.daemon.agent.central_server import Service, until
from tests.daemon.agent.running import RunningAgent

MakeAgent = Callable[..., RunningAgent]
GPU = "0000:5d:00.0"


def started(make: MakeAgent, service: Service, host: SimHost, **remedy: object) -> RunningAgent:
    settings = {"reset_gpu": True, "nvidia_smi": str(install(host)), **remedy}
    agent = make(service.url, remedy=settings)
    agent.start()
    until(lambda: service.polls, what="first poll")
    return agent


def settled(service: Service) -> None:
    """Wait until the poll that an agent left open when it ended can take no order any more."""
    seen = len(service.polls)
    until(lambda: len(service.polls) > seen + 2, 30, "further polls")


def ordered(service: Service, number: str, limit: float = 60.0) -> None:
    service.push(PollAnswer(orders=(Order(id=number, kind="reset-gpu", gpus=(GPU,), limit=limit),)))


def told(service: Service, number: str) -> Remedied | None:
    """What the agent says became of an order, once it is over."""
    return next((r for r in service.polls[-1].remedied if r.order == number and r.outcome != "running"), None)


def ended(service: Service, number: str) -> Remedied:
    until(lambda: told(service, number) is not None, 60, f"end of {number}")
    found = told(service, number)
    assert found is not None
    return found


def test_a_reset_is_carried_out_once_told_and_remembered(
    make_agent: MakeAgent,
    service: Service,
    host: SimHost,
) -> None:
    agent = started(make_agent, service, host)
    assert service.polls[-1].remedies == ("reset-gpu",)
    host.inject("gpu_reset_required", gpu=3)
    ordered(service, "r1")
    assert ended(service, "r1").outcome == "done"
    assert host.faults() == []
    until(lambda: "gpu_reset_required" not in agent.codes(), 30, "the next look at the GPU")
    host.inject("gpu_reset_required", gpu=3)
    agent.stop()
    agent.start()
    settled(service)
    ordered(service, "r1")
    settled(service)
    assert ended(service, "r1").outcome == "done"
    assert [f.name for f in host.faults()] == ["gpu_reset_required"]


def test_a_node_that_does_not_allow_it_refuses(
    make_agent: MakeAgent,
    service: Service,
    host: SimHost,
) -> None:
    started(make_agent, service, host, reset_gpu=False)
    assert service.polls[-1].remedies == ()
    host.inject("gpu_reset_required", gpu=3)
    ordered(service, "r2")
    assert (ended(service, "r2").outcome, len(host.faults())) == ("refused", 1)


def test_a_reset_that_hangs_is_remembered_across_a_restart_and_no_second_is_begun(
    make_agent: MakeAgent,
    service: Service,
    host: SimHost,
) -> None:
    agent = started(make_agent, service, host)
    host.inject("reset_hangs")
    ordered(service, "r3", limit=5.0)
    found = ended(service, "r3")
    pid = int(found.text.partition("(")[2].partition(")")[0])
    try:
        assert found.outcome == "hung"
        agent.stop()
        os.kill(pid, 0)
        agent.start()
        host.heal("reset_hangs")
        settled(service)
        ordered(service, "r4")
        again = ended(service, "r4")
        assert (again.outcome, str(pid) in again.text) == ("refused", True)
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
