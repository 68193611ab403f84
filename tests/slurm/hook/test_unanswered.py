"""A hook that cannot get an answer exits 0 within its deadline and leaves a mark with the cause."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.slurm.hook.agent import Agent, Request, answer, drips, listener, read_request, says, serve, serving, silent
from tests.slurm.hook.rig import JOB, Hook

KINDS = ("prolog", "epilog", "health", "unkillable")
BIG = JOB | {f"SLURM_X{number}": "x" * 60_000 for number in range(4)}


def test_no_socket_is_retried_and_then_admitted(hook: Hook) -> None:
    result = hook.run()
    assert (result.code, hook.causes()) == (0, ["no_agent"])
    assert result.seconds >= 0.25, "a restarting agent was not waited for"


def test_stale_socket(hook: Hook) -> None:
    listener(hook.socket).close()
    assert hook.socket.exists()
    result = hook.run()
    assert (result.code, hook.causes()) == (0, ["refused"])


def test_socket_path_that_is_a_file_or_below_one(hook: Hook) -> None:
    hook.socket.write_text("")
    assert hook.run().code == 0
    hook.configure(socket=str(hook.socket / "deeper"))
    assert hook.run().code == 0
    assert sorted(hook.causes()) == ["no_agent", "refused"]


@pytest.mark.parametrize("kind", KINDS)
def test_silent_agent(hook: Hook, kind: str) -> None:
    hook.configure(deadline_s="0.5")
    with serving(hook.socket, silent):
        result = hook.run(kind)
    assert (result.code, hook.causes()) == (0, ["deadline"])
    assert result.seconds >= 0.45


def test_agent_that_never_reads(hook: Hook) -> None:
    """The environment does not fit the socket's buffer, so that sending is what blocks."""
    made = listener(hook.socket)
    result = hook.run(env=BIG)
    made.close()
    assert (result.code, hook.causes()) == (0, ["deadline"])


def fill_backlog(path: Path) -> list[socket.socket]:
    """Connect until the kernel takes no more."""
    waiting: list[socket.socket] = []
    for _ in range(64):
        one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        one.setblocking(False)
        waiting.append(one)
        try:
            one.connect(os.fspath(path))
        except BlockingIOError:
            return waiting
    raise AssertionError("64 connections did not fill a backlog of 0")


def test_full_backlog_is_retried_to_the_deadline(hook: Hook) -> None:
    made = listener(hook.socket, backlog=0)
    waiting = fill_backlog(hook.socket)
    result = hook.run()
    for one in [made, *waiting]:
        one.close()
    assert (result.code, hook.causes()) == (0, ["deadline"])
    assert result.seconds >= 0.9, "a full backlog was taken for an agent that is away"


def test_full_backlog_that_clears_is_answered(hook: Hook) -> None:
    made = listener(hook.socket, backlog=0)
    waiting = fill_backlog(hook.socket)
    process = hook.start()
    time.sleep(0.4)
    for one in waiting:
        one.close()
    while True:
        connection, _ = made.accept()
        with connection:
            try:
                read_request(connection)
            except ConnectionError:
                continue
            connection.sendall(answer("1", b"gpu 3 lost\n"))
        break
    out, _ = process.communicate(timeout=6)
    made.close()
    assert (process.returncode, out, hook.causes()) == (1, b"gpu 3 lost\n", [])


def test_one_byte_at_a_time(hook: Hook) -> None:
    with serving(hook.socket, drips(answer("1"), 0.2)):
        result = hook.run()
    assert (result.code, hook.causes()) == (0, ["deadline"])


def test_request_lost_midway_is_repeated_once(hook: Hook) -> None:
    with serving(hook.socket, says(answer("1")[:30]), says(answer("1", b"gpu 3 lost\n"))) as agent:
        result = hook.run()
    assert (result.code, result.out, hook.causes()) == (1, b"gpu 3 lost\n", [])
    assert len(agent.requests) == 2
    assert agent.requests[0].body == agent.requests[1].body


def test_request_lost_twice_is_not_repeated_again(hook: Hook) -> None:
    half = says(answer("1")[:-3])
    with serving(hook.socket, half, half, says(answer("1"))) as agent:
        result = hook.run()
    assert (result.code, hook.causes(), len(agent.requests)) == (0, ["lost"], 2)


@pytest.mark.parametrize("env", [JOB, BIG], ids=["whole in the buffer", "half sent"])
def test_connection_that_dies_unread_is_no_lost_request(hook: Hook, env: dict[str, str]) -> None:
    """An agent that is killed takes its backlog with it: a repeat that fell into it must not have been the only one."""
    hook.deadline = 5.0
    hook.configure(restart_retry_s="3")
    agent, over = Agent(hook.socket), threading.Event()
    made = listener(hook.socket)
    process = hook.start(env=env)
    for _ in range(3):
        connection, _ = made.accept()
        connection.recv(1)
        connection.close()
    serve(made, agent, (says(answer("1")[:30]),), over)
    made.accept()[0].close()
    serve(made, agent, (says(answer("1", b"gpu 3 lost\n")),), over)
    out, _ = process.communicate(timeout=6)
    made.close()
    assert (process.returncode, out, len(agent.requests), agent.errors) == (1, b"gpu 3 lost\n", 2, [])


def test_agent_that_always_drops_is_given_up(hook: Hook) -> None:
    made = listener(hook.socket)
    thread = threading.Thread(target=drop_all, args=(made,), daemon=True)
    thread.start()
    result = hook.run()
    made.shutdown(socket.SHUT_RDWR)
    thread.join(5)
    made.close()
    assert (result.code, hook.causes()) == (0, ["lost"])


def drop_all(made: socket.socket) -> None:
    """Close every connection unread until the listener is shut down."""
    while True:
        try:
            connection, _ = made.accept()
        except OSError:
            return
        connection.close()


HALF_AN_ANSWER = """
import socket, sys, time
s = socket.socket(socket.AF_UNIX); s.bind(sys.argv[1]); s.listen(8)
c, _ = s.accept(); c.recv(65536); c.sendall(b"HTTP/1.1 200 OK\\r\\nNodevet-Exit: 1\\r\\n")
print("half", flush=True); time.sleep(60)
"""


def test_agent_killed_mid_answer_and_restarted(hook: Hook) -> None:
    hook.deadline = 5.0
    hook.configure(restart_retry_s="4")
    first = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", HALF_AN_ANSWER, str(hook.socket)], stdout=subprocess.PIPE
    )
    try:
        until = time.monotonic() + 10
        while not hook.socket.exists() and time.monotonic() < until:
            time.sleep(0.01)
        process = hook.start()
        assert first.stdout is not None
        assert first.stdout.readline() == b"half\n"
    finally:
        first.send_signal(signal.SIGKILL)
        first.communicate()
    hook.socket.unlink()
    with serving(hook.socket, says(answer("1", b"gpu 3 lost\n"))) as agent:
        out, _ = process.communicate(timeout=10)
    assert (process.returncode, out, len(agent.requests), hook.causes()) == (1, b"gpu 3 lost\n", 1, [])


@pytest.mark.parametrize("stale", [False, True], ids=["no socket", "stale socket"])
def test_agent_that_restarts_is_waited_for(hook: Hook, stale: bool) -> None:
    hook.deadline = 5.0
    hook.configure(restart_retry_s="3")
    if stale:
        listener(hook.socket).close()
    process = hook.start()
    time.sleep(0.5)
    assert process.poll() is None, "gave up before the agent was back"
    hook.socket.unlink(missing_ok=True)
    with serving(hook.socket, says(answer("0"))):
        out, _ = process.communicate(timeout=10)
    assert (process.returncode, out, hook.causes()) == (0, b"healthy\n", [])


def test_peer_that_is_neither_root_nor_ourselves(hook: Hook, root: None) -> None:
    """The kernel notes the listener's uid when it begins to listen."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.bind(os.fspath(hook.socket))
    os.seteuid(65534)
    try:
        made.listen(4)
    finally:
        os.seteuid(0)
    agent, over = Agent(hook.socket), threading.Event()
    thread = threading.Thread(target=serve, args=(made, agent, (says(answer("1")),), over), daemon=True)
    thread.start()
    result = hook.run()
    thread.join(5)
    made.close()
    assert (result.code, hook.causes()) == (0, ["bad_peer"])
    assert agent.requests == [], "the environment was sent to a stranger"
    assert agent.errors == ["request ended after 0 bytes"]


def test_remaining_time_is_told(hook: Hook) -> None:
    with serving(hook.socket, says(answer())) as agent:
        hook.run()
    request: Request = agent.requests[0]
    assert 0 < float(request.headers["nodevet-remaining"]) <= hook.deadline
