"""`nodevet status` asks the agent's socket and survives whatever answers there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.daemon.cli.command import document, nodevet, write_config

FINDING = b'{"status":"ok","check":"c","target":"t","message":"up\\nfail  all  lost"}'
CHECKS = b'[{"name":"clock","age":1.5,"stale":false},{"name":"mount:/x","age":900,"stale":true}]'
STATUS = (
    b'{"cluster":"lab","node":"gpu1","verdict":"healthy","findings":[%s],"checks":%s,'
    b'"uplink":{"state":"up","last_error":"","limits":null}}'
) % (FINDING, CHECKS)


@contextmanager
def _speaking(path: Path, answer: bytes) -> Iterator[None]:
    """Something listens at ``path`` and gives each caller ``answer``."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(4)
        thread = threading.Thread(target=_serve, args=(listener, answer))
        thread.start()
        try:
            yield
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(30)


def _serve(listener: socket.socket, answer: bytes) -> None:
    while True:
        try:
            peer, _ = listener.accept()
        except OSError:
            return
        with peer:
            peer.recv(65536)
            peer.sendall(answer)


def _http(code: int, body: bytes) -> bytes:
    return b"HTTP/1.1 %d x\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (code, len(body), body)


def test_shows_what_the_agent_says(tmp_path: Path) -> None:
    config = write_config(tmp_path / "nodevet.toml")
    with _speaking(tmp_path / "agent.sock", _http(200, STATUS)):
        people = nodevet("status", config=config)
        programs = nodevet("status", "--json", config=config)
    assert people.returncode == 0 and "verdict: healthy" in people.stdout
    assert people.stdout.splitlines()[-1].endswith("up fail  all  lost"), "a message made a line of its own"
    assert "checks: 2, stale: mount:/x" in people.stdout and "uplink: state up\n" in people.stdout
    assert document(programs)["node"] == "gpu1" and len(document(programs)["checks"]) == 2


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (_http(403, b"not for you\n"), 77, "not for you"),
        (_http(404, b"no such thing"), 1, "404"),
        (_http(200, b"[1]"), 1, "not what was expected"),
        (b"garbage\r\n\r\n", 69, "no agent answers at"),
        (b"", 69, "no agent answers at"),
    ],
)
def test_says_what_is_wrong(tmp_path: Path, answer: bytes, code: int, words: str) -> None:
    with _speaking(tmp_path / "agent.sock", answer):
        done = nodevet("status", config=write_config(tmp_path / "nodevet.toml"))
    assert done.returncode == code and words in done.stderr and "Traceback" not in done.stderr
