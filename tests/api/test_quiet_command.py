"""pause, ready and silence go from the command line to the reply of an agent's poll, over a real server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import msgspec
import pytest

from api.problems import problem_of
from checks.wire import PollAnswer, PollRequest
from daemon.central import Central
from daemon.cli import nodes as nodes_verb
from daemon.cli.repair import strikes
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
        (("pause", "n[1-", "--for", "2h", "--reason", "x"), 64),
        (("silence", "--check", "gpu_count"), 64),
        (("silence", "--for", "2h", "--reason", "x", "--check", "a b"), 64),
        (("silence", "--for", "2h", "--reason", "x"), 64),
        (("pause", "", "--for", "2h", "--reason", "x"), 64),
        (("repair", "", "--ticket", "1", "--reason", "x"), 64),
        (("ready", ""), 64),
        (("drain", "", "x", "--yes"), 64),
        (("drain", "n[1-", "x", "--yes"), 64),
        (("guard", "override", "--for", "3d", "--reason", "x"), 64),
        (("guard", "clear", "", "--reason", "x"), 64),
        (("remedy", "n1", "--action", "mend", "--yes"), 64),
        (("resume", "n1", "--accept-risk", "--for", "8d", "--reason", "x"), 64),
        (("node", "n1", "--since", "3d"), 64),
        (("token", "create"), 64),
        (("incidents", "--note", "x"), 64),
        (("resume", "n1", "--force"), 64),
        (("drain", "--from-file", "/no/such", "x"), 64),
    ],
)
def test_what_cannot_be_meant_is_refused(
    running: tuple[Verb, Callable[[], PollAnswer]], arguments: tuple[str, ...], code: int
) -> None:
    verb, _ = running
    done = verb(*arguments)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr


def test_a_name_that_nobody_knows_is_warned_of(running: tuple[Verb, Callable[[], PollAnswer]]) -> None:
    verb, _ = running
    made = verb("silence", "--check", "gpu_cuont", "--for", "30m", "--reason", "known")
    assert made.returncode == 0 and "no check 'gpu_cuont' is known here; did you mean 'gpu_count'?" in made.stderr
    assert verb("silence", "--end", made.stdout.splitlines()[1].split()[0]).stderr == ""
    had = verb("nodes", "--had", "gpu_lots")
    assert had.returncode == 0 and "did you mean 'gpu_lost'?" in had.stderr
    assert verb("nodes", "--had", "gpu_lost").stderr == ""


def test_a_body_that_is_wrong_is_told_by_the_name_of_its_part() -> None:
    error = msgspec.ValidationError("Expected `float` <= 86400.0 - at `$.seconds`")
    assert problem_of(error).detail == "seconds: expected `float` <= 86400.0"
    assert problem_of(msgspec.ValidationError("Expected `object`")).detail == "Expected `object`"


def test_a_node_in_repair_has_no_end_and_strikes_are_plain_figures() -> None:
    paused = {"node": "n1", "paused_until": "2026-12-10T00:00:00Z"}
    repair = nodes_verb._line({**paused, "paused_why": "in repair, ticket 9: disk"})
    assert repair == "in repair, ticket 9: disk (until nodevet ready)"
    assert nodes_verb._line({**paused, "paused_why": "driver"}) == "PAUSED until 2026-12-10 00:00 UTC: driver"
    told = strikes({"strikes": [{"what": "gpu_lost", "score": 1.0, "limit": 1000000.0}]})
    assert told == "gpu_lost 1 of 1000000"
