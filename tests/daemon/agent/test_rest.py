"""A paused agent holds nothing, refuses nothing, and comes back by itself; what is silenced leads to nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest

from checks.wire import Order, PollAnswer, Quiet
from deploy.simcluster.host import SimHost
from tests.daemon.agent.central_server import Service, until
from tests.daemon.agent.running import RunningAgent

MakeAgent = Callable[..., RunningAgent]
CHECKS = {"gpu_count": {"interval": 1.0}}


@pytest.fixture
def connected(make_agent: MakeAgent, service: Service) -> RunningAgent:
    agent = make_agent(service.url, checks=CHECKS)
    agent.start()
    until(lambda: agent.status().uplink.state == "connected", what="connection")
    return agent


def paused(seconds: float) -> Quiet:
    """What the service says of a pause."""
    end = datetime.now(timezone.utc) + timedelta(seconds=seconds)
    return Quiet(paused=seconds, until=end, reason="driver update", actor="ann")


def pause(agent: RunningAgent, service: Service, seconds: float = 300.0) -> None:
    """Pause it, and wait until it says so."""
    service.push(PollAnswer(quiet=paused(seconds)))
    until(lambda: agent.status().paused, what="pause")


def lanes(agent: RunningAgent) -> set[str]:
    """Names of the workers that could hold a device or a mount."""
    return {name for name in agent.helpers() if "nvml" in name or "fs" in name}


def test_its_workers_go_and_hooks_admit(connected: RunningAgent, service: Service, host: SimHost) -> None:
    assert lanes(connected), "nothing would be proved"
    pause(connected, service)
    until(lambda: not lanes(connected), what="workers let go")
    host.inject("gpu_lost", gpu=3)
    assert "paused by ann until" in connected.status().paused
    answer = connected.hook()
    assert answer.exit == 0 and "driver update" in answer.text
    for kind in ("epilog", "health"):
        assert connected.hook(kind).exit == 0
    connected.request("POST", "/v1/check")
    assert not lanes(connected) and service.permits == []
    until(lambda: any(r.occasion == "prolog" for r in service.reports), what="report")
    decision = next(r.decision for r in service.reports if r.occasion == "prolog")
    assert decision is not None and (decision.wanted, decision.allowed) == ("admit", "admit")
    assert "paused by ann" in decision.why


def test_it_ends_by_itself_while_the_service_is_away(connected: RunningAgent, service: Service, host: SimHost) -> None:
    pause(connected, service, 3.0)
    service.mode = "500"
    host.inject("gpu_lost", gpu=3)
    until(lambda: not connected.status().paused, what="end of the pause")
    until(lambda: connected.status().verdict == "faulty", what="a look after the pause")


def test_a_restarted_agent_is_still_paused(connected: RunningAgent, service: Service) -> None:
    pause(connected, service)
    time.sleep(1.5)  # the next outbox commit
    connected.stop(9)
    service.mode = "500"
    connected.start(wait=False)
    until(lambda: connected.socket.exists() and _answers(connected), what="restarted agent")
    assert "driver update" in connected.status().paused
    assert connected.hook().exit == 0 and not lanes(connected)


def _answers(agent: RunningAgent) -> bool:
    try:
        return bool(agent.status().paused)
    except OSError:
        return False


def test_a_person_ends_it_and_the_node_is_verified(connected: RunningAgent, service: Service) -> None:
    pause(connected, service)
    service.push(PollAnswer(orders=(Order(id="early", kind="verify"),)))
    until(lambda: any("order:early" in r.notes for r in service.reports), what="answer to the early order")
    early = next(r for r in service.reports if "order:early" in r.notes)
    assert early.findings == () and any("nothing was asked" in note for note in early.notes)
    assert connected.status().paused, "an answer without a word about it ends no pause"
    service.push(PollAnswer(quiet=Quiet(), orders=(Order(id="wave", kind="verify"),)))
    until(lambda: any("order:wave" in r.notes for r in service.reports), what="verification")
    assert not connected.status().paused
    assert next(r for r in service.reports if "order:wave" in r.notes).findings


def test_what_is_silenced_refuses_nothing_and_is_shown(
    connected: RunningAgent, service: Service, host: SimHost
) -> None:
    host.inject("gpu_lost", gpu=3)
    connected.request("POST", "/v1/check")
    service.push(PollAnswer(quiet=Quiet(silenced=("*",))))
    until(lambda: connected.status().silenced == ("*",), what="silence")
    assert connected.hook().exit == 0 and service.permits == []
    assert connected.status().verdict == "faulty" and connected.status().reason.startswith("silenced: ")
    service.push(PollAnswer(quiet=Quiet()))
    until(lambda: connected.status().silenced == (), what="end of the silence")
    assert connected.hook(SLURM_JOB_ID="43").exit == 1


@pytest.mark.parametrize("seconds", [-5.0, 0.0, 1e12, 1e300])
def test_a_pause_without_a_sane_end_is_none(connected: RunningAgent, service: Service, seconds: float) -> None:
    service.push(PollAnswer(quiet=Quiet(paused=seconds, reason="x", silenced=("seen",))))
    until(lambda: connected.status().silenced == ("seen",), what="the answer")
    assert connected.status().paused == ""
