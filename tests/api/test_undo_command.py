"""drain reads lists from wherever operators keep them, and operations and undo speak of what was asked."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.test_server_process import ROOT, Server, environment, make_token

Verb = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def verb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Verb]:
    """The verbs against a server of their own whose Slurm does not answer, spoken by an operator."""
    folder = tmp_path_factory.mktemp("undo")
    server = Server(folder)
    try:
        token = make_token(server, folder, "--role", "operator", "--label", "ann")
        env = {**environment(folder), "NODEVET_SERVER": server.url(), "NODEVET_TOKEN": token}

        def verb(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
            argv = [sys.executable, "-m", "daemon", "--config", os.devnull + "/none", *arguments]
            return subprocess.run(
                argv, cwd=ROOT, capture_output=True, text=True, env=env, timeout=60, check=False, input=stdin
            )

        yield verb
    finally:
        server.end()


def test_undo_says_that_there_is_nothing(verb: Verb) -> None:
    answer = verb("undo", "--yes")
    assert answer.returncode == 1 and "is left to undo" in answer.stderr
    assert verb("operations").returncode == 0


def test_a_list_from_standard_input_is_one_operation_that_is_listed_and_shown(verb: Verb) -> None:
    answer = verb("drain", "-", "rack 7 lost cooling", "--json", stdin="n1 n2 # rack 7\n\n# all of it\nn[3-4],\n")
    assert answer.returncode == 1, answer.stderr
    made = json.loads(answer.stdout)
    assert [r["node"] for r in made["items"]] == ["n1", "n2", "n3", "n4"]
    assert {r["outcome"] for r in made["items"]} == {"refused"}
    listed = verb("operations", "--since", "1h")
    assert "rack 7 lost cooling" in listed.stdout and "4 refused" in listed.stdout and "ann" in listed.stdout
    shown = verb("operations", str(made["operation"]))
    assert shown.returncode == 0 and "n4" in shown.stdout and "rack 7" in shown.stdout
    undone = verb("undo", "--dry-run")
    assert undone.returncode == 1 and "changed nothing there" in undone.stdout
    assert verb("operations", "4711").returncode == 1


def test_a_list_in_a_file_is_read_and_an_empty_or_missing_one_is_a_mistake(verb: Verb, tmp_path: Path) -> None:
    (tmp_path / "nodes").write_text("n1\nn2 # comment\n")
    (tmp_path / "none").write_text("# nothing\n")
    answer = verb("drain", "--from-file", str(tmp_path / "nodes"), "cooling", "--dry-run", "--json")
    assert [r["node"] for r in json.loads(answer.stdout)["items"]] == ["n1", "n2"]
    assert verb("drain", "--from-file", str(tmp_path / "none"), "cooling").returncode == 64
    assert verb("drain", "--from-file", str(tmp_path / "gone"), "cooling").returncode == 64
    assert verb("resume", "n1", "--from-file", str(tmp_path / "nodes")).returncode == 64
    assert verb("drain", "n1").returncode == 64
    assert verb("resume").returncode == 64


def test_a_partition_that_does_not_exist_drains_nothing(verb: Verb) -> None:
    answer = verb("drain", "@gpus,n1", "cooling")
    assert answer.returncode == 1 and "no node in a partition 'gpus'" in answer.stderr


def test_questions_about_the_past_of_nodes_are_understood(verb: Verb) -> None:
    """Nothing has happened yet, so what is tried here is the way of the words to the service and back."""
    found = verb("nodes", "--had", "gpu_lost", "--drained", "2", "--since", "30d", "--names")
    assert (found.returncode, found.stdout) == (0, ""), found.stderr
    assert verb("nodes", "--since", "30d").returncode == 64
    assert verb("node", "n1", "--history").returncode == 1
    line = verb("lemons", "--exclude-line")
    assert (line.returncode, line.stdout) == (0, ""), line.stderr
    assert "ends of jobs are not told" in verb("lemons").stdout
