"""The REST client keeps its connection, repeats only what may be repeated, and names every failure."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from daemon.central import BadAnswer, Central, NotAllowed, Refused, Unreachable


class _Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    connections: set[tuple[str, int]]
    status = 200
    body = b'{"items": []}'

    def do_GET(self) -> None:
        self.connections.add(self.client_address)
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@contextmanager
def answering(status: int = 200, body: bytes = b'{"items": []}') -> Iterator[tuple[str, set[tuple[str, int]]]]:
    """A server that keeps connections; gives its address and the set of connections it has seen."""
    seen: set[tuple[str, int]] = set()
    handler = type("Handler", (_Answers,), {"connections": seen, "status": status, "body": body})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_several_requests_go_over_one_connection() -> None:
    with answering() as (url, seen):
        client = Central(url)
        for _ in range(3):
            assert client.get("nodes", dict[str, object]) == {"items": []}
        client.close()
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (401, b"{}", NotAllowed),
        (403, b"not json", NotAllowed),
        (404, b'{"detail": "no node"}', Refused),
        (503, b"{}", Unreachable),
        (200, b"<html>", BadAnswer),
        (200, b"[" * 100_000, BadAnswer),
    ],
)
def test_each_failure_has_its_name(status: int, body: bytes, error: type[Exception]) -> None:
    with answering(status, body) as (url, _):
        client = Central(url)
        with pytest.raises(error):
            client.get("nodes", dict[str, object])
        client.close()


def test_nobody_there_is_unreachable() -> None:
    with pytest.raises(Unreachable):
        Central("http://127.0.0.1:1", timeout=1.0).get("nodes", object)


def test_a_token_is_never_sent_in_the_clear_beyond_this_machine() -> None:
    with pytest.raises(NotAllowed):
        Central("http://central.example", "secret")
