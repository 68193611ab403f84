"""Signals, the stop file, arguments, names and closed descriptors never make the hook exit 1."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from tests.slurm.hook.agent import answer, says, serving, silent
from tests.slurm.hook.rig import JOB, Hook


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGSEGV, signal.SIGABRT])
def test_signal_ends_with_0(hook: Hook, number: signal.Signals) -> None:
    hook.deadline = 20.0
    hook.configure()
    with serving(hook.socket, silent) as agent:
        process = hook.start()
        assert agent.asked.wait(10)
        process.send_signal(number)
        process.communicate(timeout=10)
    assert process.returncode == 0


def test_blocked_signal_is_unblocked(hook: Hook) -> None:
    """A child of a daemon inherits its mask."""
    hook.deadline = 20.0
    hook.configure()
    with serving(hook.socket, silent) as agent:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        try:
            process = hook.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        assert agent.asked.wait(10)
        process.terminate()
        process.communicate(timeout=10)
    assert process.returncode == 0


@pytest.mark.parametrize("kind", ["prolog", "epilog", "health", "unkillable"])
def test_stop_file(hook: Hook, kind: str) -> None:
    hook.stop_file.write_text("")
    with serving(hook.socket, says(answer("1"))) as agent:
        result = hook.run(kind)
    assert (result.code, hook.causes(), agent.requests) == (0, ["stop"], [])


def test_stop_file_may_be_a_dangling_link(hook: Hook) -> None:
    hook.stop_file.symlink_to("/nonexistent")
    assert (hook.run().code, hook.causes()) == (0, ["stop"])


@pytest.mark.parametrize("arguments", [("--mode", "prolog"), ("",), ("prolog",), ("--check", "--check"), ("--versio",)])
def test_argument_is_refused_without_a_drain(hook: Hook, arguments: tuple[str, ...]) -> None:
    with serving(hook.socket, says(answer("1"))) as agent:
        result = hook.run("prolog", *arguments)
    assert (result.code, hook.causes(), agent.requests) == (0, ["args"], [])
    assert "takes no argument" in result.err


def test_version_and_help(hook: Hook) -> None:
    version, about = hook.run("prolog", "--version"), hook.run("prolog", "--help")
    assert (version.code, about.code, hook.causes()) == (0, 0, [])
    assert version.out.startswith(b"nodevet hook ")
    assert str(hook.conf).encode() in about.out


def test_check_asks_for_the_status_only(hook: Hook) -> None:
    with serving(hook.socket, says(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")) as agent:
        result = hook.run("health", "--check")
    assert (result.code, hook.causes()) == (0, [])
    assert result.out.splitlines()[0] == b"kind=health"
    assert result.out.splitlines()[-1] == b"agent=answered"
    assert (agent.requests[0].line, agent.requests[0].body) == ("GET /v1/status HTTP/1.1", b"")


def test_check_without_an_agent(hook: Hook) -> None:
    hook.stop_file.write_text("")
    result = hook.run("prolog", "--check")
    assert (result.code, hook.causes()) == (1, [])
    assert result.out.splitlines()[-2:] == [b"stopped=yes", b"agent=no_agent"]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("prolog", "POST /v1/prolog"),
        ("50-nodevet-epilog", "POST /v1/epilog"),
        ("health", "POST /v1/health"),
        ("nodevet-unkillable", "POST /v1/unkillable"),
        ("nodevet-taskprolog", "POST /v1/taskprolog"),
    ],
)
def test_kind_is_the_end_of_the_name(hook: Hook, name: str, line: str) -> None:
    (hook.base / name).hardlink_to(hook.bin / "nodevet-prolog")
    with serving(hook.socket, says(answer("0"))) as agent:
        assert (
            subprocess.run([str(hook.base / name)], env=JOB, capture_output=True, check=False, timeout=10).returncode
            == 0
        )
    assert agent.requests[0].line.startswith(line)


@pytest.mark.parametrize("name", ["hook", "unprolog", "mytaskprolog", "nodevet-task", "nodevet-prolog.sh", "prolog-x"])
def test_unknown_name_asks_nothing(hook: Hook, name: str) -> None:
    (hook.base / name).hardlink_to(hook.bin / "nodevet-prolog")
    with serving(hook.socket, says(answer("1"))) as agent:
        done = subprocess.run([str(hook.base / name)], env=JOB, capture_output=True, check=False, timeout=10)
    assert (done.returncode, agent.requests, hook.causes()) == (0, [], ["args"])
    assert hook.marks()[0].name.startswith("unknown.4242.1.")


CLOSED = "import os, sys; os.closerange(0, 3); os.execve(sys.argv[1], [sys.argv[1]], dict(os.environ))"


def test_closed_descriptors_do_not_mix_line_and_request(hook: Hook) -> None:
    with serving(hook.socket, says(answer("1", b"gpu 3 lost\n"))) as agent:
        result = hook.run(wrap=("/usr/bin/python3", "-I", "-S", "-c", CLOSED))
    assert (result.code, len(agent.requests), agent.errors) == (1, 1, [])


def test_descriptors_cannot_be_had(hook: Hook) -> None:
    with serving(hook.socket, says(answer("1"))) as agent:
        result = hook.run(wrap=("/usr/bin/prlimit", "--nofile=3"))
    assert (result.code, agent.requests) == (0, [])


@pytest.mark.parametrize(("exit_code", "expected"), [("0", 0), ("1", 1)])
def test_blocked_stdout_ends_with_what_was_decided(hook: Hook, exit_code: str, expected: int) -> None:
    hook.configure(deadline_s="0.5")
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b"x" * 4096)
    except BlockingIOError:
        os.set_blocking(writer, True)
    with serving(hook.socket, says(answer(exit_code))):
        result = hook.run(stdout=writer)
    os.close(reader)
    os.close(writer)
    assert (result.code, hook.causes()) == (expected, [])
