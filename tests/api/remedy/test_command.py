"""remedy and remedies speak to a real server, which does nothing unless its site has switched it on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.api.test_server_process import ROOT, Server, environment, make_token

Verb = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def verb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Verb]:
    """The verbs against a server of their own, spoken by an operator."""
    folder = tmp_path_factory.mktemp("remedies")
    server = Server(folder)
    try:
        token = make_token(server, folder, "--role", "operator")
        env = {**environment(folder), "NODEVET_SERVER": server.url(), "NODEVET_TOKEN": token}

        def verb(*arguments: str) -> subprocess.CompletedProcess[str]:
            argv = [sys.executable, "-m", "daemon", "--config", os.devnull + "/none", *arguments]
            return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, env=env, timeout=60, check=False)

        yield verb
    finally:
        server.end()


def test_a_server_with_untouched_settings_does_nothing(verb: Verb) -> None:
    for action in ("reset-gpu", "reboot", "run:mend"):
        asked = verb("remedy", "n1", "--action", action, "--yes")
        assert asked.returncode == 1 and "switched off" in asked.stdout + asked.stderr, asked.stderr


def test_what_may_be_done_is_shown(verb: Verb) -> None:
    shown = verb("remedies")
    assert shown.returncode == 0, shown.stderr
    assert "switched: reset-gpu off, reboot off" in shown.stdout
    told = json.loads(verb("remedies", "--json").stdout)
    assert told["items"] == [] and {m["mode"] for m in told["modes"]} == {"off"}


def test_usage_and_what_is_not_there(verb: Verb) -> None:
    assert verb("remedy", "n1").returncode == 64
    assert verb("remedy", "n1", "--action", "reboot", "--gpus", "0000:5d:00.0", "--yes").returncode == 64
    assert verb("remedies", "--cancel", "7").returncode == 1
    assert "reset-gpu" in verb("remedy", "--help").stdout
