"""pause, ready and silence go from the command line to the reply of an agent's poll, over a real server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from checks.wire import PollAnswer, PollRequest
from daemon.central import Central
from tests.api.test_server_process import ROOT, Server, environment, make_token

Verb = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Verb, Callable[[], PollAnswer]]]:
    """The verbs against a server of their own, and what an agent of n1 is told meanwhile."""
    folder = tmp_path_factory.mktemp("quiet")
    server = Server(folder)
    try:
        url = server.url()
        operator = make_token(server, folder, "--role", "operator")
        agent = make_token(server, folder, "--role", "agent", "--cluster", "c", "--node", "n1")
        central = Central(url, agent)
        env = {**environment(folder), "NODEVET_SERVER": url, "NODEVET_TOKEN": operator}

        def verb(*arguments: str) -> subprocess.CompletedProcess[str]:
            argv = [sys.executable, "-m", "daemon", "--config", os.devnull + "/none", *arguments]
            return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, env=env, timeout=60, check=False)

        def told() -> PollAnswer:
            return central.poll(PollRequest(cluster="c", node="n1", incarnation="a", wait=0.0))

        yield verb, told
        central.close()
    finally:
        server.end()


def test_pause_and_ready(running: tuple[Verb, Callable[[], PollAnswer]]) -> None:
    verb, told = running
    done = verb("pause", "n[1-2]", "--for", "2h", "--reason", "driver update")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("done") == 2
    quiet = told().quiet
    assert quiet is not None and 7100 < quiet.paused <= 7200 and quiet.reason == "driver update"
    assert "driver update" in verb("pause").stdout and "n2" in verb("pause").stdout
    assert verb("ready", "n1").returncode == 0
    answer = told()
    assert answer.quiet is not None and answer.quiet.paused == 0
    assert [o.kind for o in answer.orders] == ["verify"]


def test_silence_and_its_end(running: tuple[Verb, Callable[[], PollAnswer]]) -> None:
    verb, told = running
    made = verb("silence", "--check", "gpu_count", "--nodes", "n1", "--for", "30m", "--reason", "known")
    assert made.returncode == 0, made.stderr
    quiet = told().quiet
    assert quiet is not None and quiet.silenced == ("gpu_count",)
    number = made.stdout.splitlines()[1].split()[0]
    assert "gpu_count" in verb("silence").stdout
    assert "silenced" in verb("incidents").stdout, "silence is loud"
    assert "nothing is silenced" in verb("silence", "--end", number).stdout
    assert verb("silence", "--end", number).returncode == 1
    ended = told().quiet
    assert ended is not None and ended.silenced == ()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("pause", "n1"), 64),
        (("pause", "n1", "--for", "2h"), 64),
        (("pause", "n1", "--for", "2 weeks", "--reason", "x"), 64),
        (("pause", "n1", "--for", "99d", "--reason", "x"), 64),
        (("pause", "n[1-", "--for", "2h", "--reason", "x"), 1),
        (("silence", "--check", "gpu_count"), 64),
        (("silence", "--for", "2h", "--reason", "x", "--check", "a b"), 1),
    ],
)
def test_what_cannot_be_meant_is_refused(
    running: tuple[Verb, Callable[[], PollAnswer]], arguments: tuple[str, ...], code: int
) -> None:
    verb, _ = running
    done = verb(*arguments)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
