"""guard and resume --accept-risk speak to a real server and say what came of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import msgspec
import pytest

from tests.api.test_server_process import ROOT, Server, environment, make_token

Verb = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def verb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Verb]:
    """The verbs against a server of their own, spoken by an administrator."""
    folder = tmp_path_factory.mktemp("guard")
    server = Server(folder)
    try:
        token = make_token(server, folder, "--role", "admin")
        env = {**environment(folder), "NODEVET_SERVER": server.url(), "NODEVET_TOKEN": token}

        def verb(*arguments: str) -> subprocess.CompletedProcess[str]:
            argv = [sys.executable, "-m", "daemon", "--config", os.devnull + "/none", *arguments]
            return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, env=env, timeout=60, check=False)

        yield verb
    finally:
        server.end()


def test_an_override_is_made_shown_and_ended(verb: Verb) -> None:
    made = verb("guard", "override", "--code", "gpu_lost", "--for", "1h", "--reason", "rack 7 lost cooling")
    assert made.returncode == 0, made.stderr
    assert "gpu_lost" in made.stdout
    shown = verb("guard", "show")
    assert shown.returncode == 0, shown.stderr
    assert "rack 7 lost cooling" in shown.stdout and "floor" in shown.stdout
    assert verb("guard", "override", "--end").returncode == 0
    assert "rack 7" not in verb("guard", "show").stdout
    assert verb("guard", "override", "--end").returncode == 1


def test_a_risk_needs_a_time_and_a_reason(verb: Verb) -> None:
    assert verb("resume", "n1", "--accept-risk").returncode == 64
    assert verb("resume", "n1", "--for", "4h").returncode == 64


def test_a_node_that_slurm_does_not_know_is_not_given_back(verb: Verb) -> None:
    answer = verb("resume", "n1", "--accept-risk", "--for", "4h", "--reason", "CPU jobs only")
    assert answer.returncode == 1 and "refused" in answer.stdout
    assert verb("drains").returncode == 0


def test_clear_says_that_there_was_nothing_to_clear(verb: Verb) -> None:
    answer = verb("guard", "clear", "n1", "--reason", "mended")
    assert answer.returncode == 0 and "nothing was contested" in answer.stdout


def test_what_is_done_is_one_document_too_and_closed_incidents_are_told_from_open_ones(verb: Verb) -> None:
    assert verb("guard", "override", "--for", "1h", "--reason", "x").returncode == 0
    assert "guard_overridden" in (opened := verb("incidents", "--all").stdout) and "  open  " in opened
    assert msgspec.json.decode(verb("guard", "override", "--end", "--json").stdout) == {"done": "guard is closed again"}
    heads = verb("incidents", "--all").stdout.splitlines()[0].split()
    assert heads == ["N", "NODE", "CODE", "TARGET", "SINCE", "CLOSED", "TAKEN", "BY", "MESSAGE"]
