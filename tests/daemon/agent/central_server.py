"""A small central service for tests: it keeps what it is told, and misbehaves as it is told to."""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal

import msgspec

from checks.wire import (
    Batch,
    BatchAnswer,
    GateAnswer,
    GateRequest,
    PermitAnswer,
    PermitRequest,
    PollAnswer,
    PollRequest,
    Report,
)

Mode = Literal["ok", "500", "garbage", "hang", "drip", "forbidden", "close"]


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away in the middle is what some tests are about."""


class Service:
    """What the service knows and how it answers; every field may be changed while it runs."""

    def __init__(self) -> None:
        self.mode: Mode = "ok"
        self.reports: list[Report] = []
        self.polls: list[PollRequest] = []
        self.permits: list[PermitRequest] = []
        self.gates: list[GateRequest] = []
        self.tokens: list[str] = []
        self.permit: Callable[[PermitRequest], PermitAnswer] = lambda _: PermitAnswer(
            granted=True, permit="p1", drained=True
        )
        self.gate: Callable[[GateRequest], GateAnswer] = lambda _: GateAnswer(complete=True)
        self.poll = PollAnswer()
        self.poll_at_once = threading.Event()
        self.ended = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                server.tokens.append(self.headers.get("Authorization", ""))
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                server.answer(self, body)

            def log_message(self, format: str, *args: object) -> None:
                return

        self._http = _Http(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    def answer(self, http: BaseHTTPRequestHandler, body: bytes) -> None:
        """One exchange in the present mode."""
        if self.mode == "hang":
            self.ended.wait(60)
            return
        if self.mode == "close":
            http.close_connection = True
            return
        if self.mode == "drip":
            http.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while not self.ended.wait(0.2):
                http.wfile.write(b"X-Slow: 1\r\n")
            return
        if self.mode == "garbage":
            self._send(http, 200, b'{"accepted": "many", <html>')
            return
        if self.mode in ("500", "forbidden"):
            self._send(http, 500 if self.mode == "500" else 403, b'{"title": "no"}')
            return
        self._send(http, 200, msgspec.json.encode(self._reply(http.path, body)))

    def _reply(self, path: str, body: bytes) -> object:
        if path == "/api/v1/ingest":
            batch = msgspec.json.decode(body, type=Batch)
            self.reports += batch.reports
            return BatchAnswer(accepted=batch.reports[-1].sequence)
        if path == "/api/v1/poll":
            request = msgspec.json.decode(body, type=PollRequest)
            self.polls.append(request)
            answer, self.poll = self.poll, msgspec.structs.replace(self.poll, orders=())
            if not answer.orders and len(self.polls) > 1:
                self.poll_at_once.wait(request.wait)
                self.poll_at_once.clear()
                answer, self.poll = self.poll, msgspec.structs.replace(self.poll, orders=())
            return answer
        if path == "/api/v1/permits":
            asked = msgspec.json.decode(body, type=PermitRequest)
            self.permits.append(asked)
            return self.permit(asked)
        told = msgspec.json.decode(body, type=GateRequest)
        self.gates.append(told)
        return self.gate(told)

    def _send(self, http: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
        http.send_response(status)
        http.send_header("Content-Type", "application/json")
        http.send_header("Content-Length", str(len(body)))
        http.end_headers()
        http.wfile.write(body)

    def push(self, answer: PollAnswer) -> None:
        """Have the open poll answered with this."""
        self.poll = answer
        self.poll_at_once.set()

    def close(self) -> None:
        """Be away."""
        self.ended.set()
        self.poll_at_once.set()
        self._http.shutdown()
        self._http.server_close()


def until(condition: Callable[[], object], seconds: float = 45.0, what: str = "condition") -> None:
    """Wait for a condition, and say which one did not come."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come within {seconds:g} s"
        time.sleep(0.02)
