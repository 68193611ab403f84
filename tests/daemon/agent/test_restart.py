"""An agent that is killed, restarted, doubled or reloaded loses nothing and answers the same."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from checks.wire import PermitAnswer, PermitRequest
from deploy.simcluster.host import SimHost
from slurm.hook.build import build
from tests.daemon.agent.central_server import Service, until
from tests.daemon.agent.running import JOB, Answered, RunningAgent

MakeAgent = Callable[..., RunningAgent]


@pytest.fixture(scope="session")
def hook_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built hook; it reads a hook.conf beside it."""
    folder = tmp_path_factory.mktemp("hook")
    return build(folder, conf=folder / "hook.conf")


def run_hook(folder: Path, agent: RunningAgent, kind: str = "prolog", **changes: str) -> tuple[int, str]:
    """The real hook against this agent, as slurmd runs it."""
    conf = folder / "hook.conf"
    conf.write_text(f"socket={agent.socket}\nmarks={agent.base / 'marks'}\nstop_file={agent.base / 'STOP'}\n")
    conf.chmod(0o600)
    done = subprocess.run(
        [str(folder / f"nodevet-{kind}")],
        env={**JOB, **changes},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stdout.strip()


def faulty(make_agent: MakeAgent, service: Service, host: SimHost) -> RunningAgent:
    agent = make_agent(service.url)
    host.inject("gpu_lost", gpu=3)
    agent.start()
    until(lambda: agent.status().uplink.state == "connected", what="connection")
    return agent


def test_the_real_hook_is_admitted_refused_and_answered_at_once(
    make_agent: MakeAgent, service: Service, host: SimHost, hook_folder: Path
) -> None:
    agent = make_agent(service.url)
    agent.start()
    assert run_hook(hook_folder, agent) == (0, "nodevet: admitted")
    assert run_hook(hook_folder, agent, "epilog") == (0, "nodevet: epilog noted")
    assert run_hook(hook_folder, agent, "health") == (0, "nodevet: health noted")
    host.inject("gpu_lost", gpu=3)
    agent.request("POST", "/v1/check")
    until(lambda: agent.status().uplink.state == "connected", what="connection")
    code, line = run_hook(hook_folder, agent, SLURM_JOB_ID="43")
    assert code == 1
    assert line.startswith("nodevet: refused: gpu_")


def test_a_restart_between_two_hooks_is_waited_for_by_the_real_hook(agent: RunningAgent, hook_folder: Path) -> None:
    agent.stop()
    assert not agent.socket.exists()
    agent.start(wait=False)
    code, _ = run_hook(hook_folder, agent)
    assert code == 0
    until(agent.ready, what="agent")


def test_killed_while_a_prolog_waits_the_next_agent_answers_the_repeated_request(
    make_agent: MakeAgent, service: Service, host: SimHost, hook_folder: Path
) -> None:
    agent = faulty(make_agent, service, host)
    asked, go = threading.Event(), threading.Event()

    def slow(request: PermitRequest) -> PermitAnswer:
        asked.set()
        go.wait(20)
        return PermitAnswer(granted=True, permit="p1", drained=True)

    service.permit = slow
    results: list[tuple[int, str]] = []
    caller = threading.Thread(target=lambda: results.append(run_hook(hook_folder, agent)))
    caller.start()
    assert asked.wait(10)
    agent.stop(signal.SIGKILL)
    service.permit = lambda _: PermitAnswer(granted=True, permit="p1", drained=True)
    agent.start(wait=False)
    caller.join(20)
    go.set()
    # The hook repeats its request once: a new agent that is quick enough refuses as well, a slow one admits.
    assert results and results[0][0] in (0, 1)
    until(agent.ready, 30, what="agent")
    assert run_hook(hook_folder, agent)[0] == 1


def test_an_agent_that_is_asked_to_end_answers_who_waits(
    make_agent: MakeAgent, service: Service, host: SimHost
) -> None:
    agent = faulty(make_agent, service, host)
    asked = threading.Event()

    def slow(request: PermitRequest) -> PermitAnswer:
        asked.set()
        time.sleep(1.0)
        return PermitAnswer(granted=True, permit="p1", drained=True)

    service.permit = slow
    results: list[Answered] = []
    caller = threading.Thread(target=lambda: results.append(agent.hook()))
    caller.start()
    assert asked.wait(10)
    assert agent.stop() == 0
    caller.join(20)
    assert [r.exit for r in results] == [1]


def test_a_refusal_given_before_the_restart_is_given_again(
    make_agent: MakeAgent, service: Service, host: SimHost
) -> None:
    agent = faulty(make_agent, service, host)
    assert agent.hook().exit == 1
    service.mode = "500"
    agent.stop(signal.SIGKILL)
    agent.start()
    assert agent.hook().exit == 1
    assert len(service.permits) == 1


def test_what_a_killed_agent_left_is_sent_by_the_next_and_deleted(make_agent: MakeAgent, service: Service) -> None:
    agent = make_agent(service.url)
    service.mode = "500"
    agent.start()
    for job in range(100, 110):
        agent.hook(SLURM_JOB_ID=str(job))
    until(lambda: sum(r.job is not None for r in agent.on_disk()) == 10, what="reports on disk")
    agent.stop(signal.SIGKILL)
    service.mode = "ok"
    agent.start()
    until(lambda: {r.job.job_id for r in service.reports if r.job} == set(range(100, 110)), what="old reports")
    first = {r.incarnation for r in service.reports if r.job}
    until(lambda: not (agent.base / "state/outbox" / first.pop()).exists() if first else True, what="deletion")
    keys = [(r.incarnation, r.sequence) for r in service.reports]
    assert len(keys) == len(set(keys))


def test_a_stuck_predecessor_keeps_neither_socket_nor_state(agent: RunningAgent) -> None:
    second = RunningAgent(agent.base, settings=agent.settings)
    os.kill(agent.pid, signal.SIGSTOP)
    try:
        second.start()
        assert "agent_predecessor" in second.codes()
        assert second.hook().exit == 0
        assert second.status().pid == second.pid
    finally:
        os.kill(agent.pid, signal.SIGCONT)
    # The first one sees before its next report that the socket is another's, and goes.
    with socket.socket(socket.AF_UNIX) as probe:
        probe.connect(str(agent.socket))
    os.kill(agent.pid, signal.SIGHUP)
    assert agent.process is not None
    agent.process.wait(20)
    assert second.hook(SLURM_JOB_ID="43").exit == 0
    second.stop()


def test_sigterm_ends_everything_and_takes_the_socket_away(agent: RunningAgent) -> None:
    helpers = agent.helpers()
    assert {"nodevet-zygote", "nv-outbox"} <= set(helpers)
    assert agent.stop() == 0
    assert not agent.socket.exists()
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in helpers.values()), what="end of helpers")


def test_a_good_configuration_is_taken_over_in_place(agent: RunningAgent) -> None:
    before = agent.status()
    agent.configure(checks={"gpu_count": {"interval": 7.0}, "gpu_thermal": {"enabled": False}})
    os.kill(agent.pid, signal.SIGHUP)
    until(lambda: any(c.name == "gpu_count" and c.interval == 7 for c in agent.status().checks), what="new interval")
    after = agent.status()
    assert "gpu_thermal" not in {c.name for c in after.checks}
    assert (after.pid, after.incarnation) == (before.pid, before.incarnation)


def test_a_bad_configuration_is_not_taken_over(agent: RunningAgent) -> None:
    agent.configure(checks={"gpu_count": {"expectd": 7}})
    os.kill(agent.pid, signal.SIGHUP)
    until(lambda: "config_not_taken" in agent.codes(), what="finding")
    found = next(f for f in agent.status().findings if f.code == "config_not_taken")
    assert "did you mean 'expected'" in found.message
    assert agent.hook().text == "nodevet: admitted"
    agent.configure(checks={"gpu_count": {}})
    agent.settings["checks"] = {}
    agent.configure()
    os.kill(agent.pid, signal.SIGHUP)
    until(lambda: "config_not_taken" not in agent.codes(), what="settled finding")


def test_a_reload_that_comes_while_the_agent_starts_does_not_end_it(make_agent: MakeAgent) -> None:
    agent = make_agent()
    agent.start(wait=False)
    status = Path(f"/proc/{agent.pid}/status")
    until(lambda: _holds_back(status, signal.SIGHUP), 30, what="agent's own start")
    os.kill(agent.pid, signal.SIGHUP)
    until(agent.ready, 60, what="agent")
    until(lambda: "event=config_taken" in agent.log, what="reload")
    assert not _holds_back(status, signal.SIGHUP)
    assert not any(_holds_back(Path(f"/proc/{pid}/status"), signal.SIGHUP) for pid in agent.helpers().values())


def _holds_back(status: Path, number: int) -> bool:
    line = next(line for line in status.read_text().splitlines() if line.startswith("SigBlk:"))
    return bool(int(line.split()[1], 16) >> (number - 1) & 1)


def test_a_changed_socket_is_served_after_a_fresh_start(agent: RunningAgent) -> None:
    old = agent.status()
    agent.configure(agent={"stop_file": str(agent.base / "STOP2")})
    os.kill(agent.pid, signal.SIGHUP)
    until(lambda: _new(agent, old.incarnation), 30, what="fresh start")
    assert agent.status().pid == old.pid


def _new(agent: RunningAgent, incarnation: str) -> bool:
    try:
        return agent.status().incarnation != incarnation and agent.ready()
    except OSError:
        return False


def test_a_lost_zygote_is_replaced_by_a_fresh_start(agent: RunningAgent) -> None:
    old = agent.status()
    os.kill(agent.helpers()["nodevet-zygote"], signal.SIGKILL)
    answer: Answered = agent.hook()
    assert answer.exit == 0
    until(lambda: _new(agent, old.incarnation), 40, what="fresh start")
    assert agent.hook(SLURM_JOB_ID="43").text == "nodevet: admitted"
