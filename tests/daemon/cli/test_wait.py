"""`nodevet wait --ready` ends when the agent has looked once, and always lets slurmd start."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.daemon.cli.command import document, nodevet, write_config
from tests.daemon.cli.test_status import _speaking

CHECKED = b'{"checks":[{"name":"clock","age":1.5},{"name":"gpu_count","age":0.1}]}'


@pytest.mark.parametrize(
    ("status", "note"),
    [
        (CHECKED, ""),
        (b'{"checks":[],"paused":"paused by ann"}', ""),
        (b'{"checks":[{"name":"clock","age":1.5},{"name":"gpu_count","age":null}]}', "not asked yet: gpu_count"),
        (b'{"checks":[]}', "not planned"),
        (b'{"checks":[{"name":"clock","age":1}],"config_error":"no section"}', "configuration is broken: no section"),
        (b"garbage", "not what was expected"),
        (b"[]", "not what was expected"),
    ],
)
def test_what_counts_as_ready(tmp_path: Path, status: bytes, note: str) -> None:
    config = write_config(tmp_path / "nodevet.toml")
    with _speaking(tmp_path / "agent.sock", _answer(status)):
        done = nodevet("wait", "--ready", "--timeout", "1s", "--json", config=config)
    said = document(done)
    assert done.returncode == 0
    assert said["ready"] is (note == "") and note in said["note"]


def _answer(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def test_without_an_agent_slurmd_starts_in_time(tmp_path: Path) -> None:
    begun = time.monotonic()
    done = nodevet("wait", "--ready", "--timeout", "1", config=write_config(tmp_path / "nodevet.toml"))
    assert (done.returncode, done.stdout) == (0, "") and "not ready, going on" in done.stderr
    assert time.monotonic() - begun < 20


def test_a_broken_configuration_lets_slurmd_start(tmp_path: Path) -> None:
    (tmp_path / "nodevet.toml").write_text("[agnet]\n")
    done = nodevet("wait", "--ready", "--timeout", "1", config=tmp_path / "nodevet.toml")
    assert done.returncode == 0 and "did you mean 'agent'" in done.stderr
