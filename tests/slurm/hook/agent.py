"""A stand-in for the agent answers each connection with the next of the behaviours it was given."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

Behaviour = Callable[[socket.socket, threading.Event], None]


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived."""

    line: str
    headers: dict[str, str]
    body: bytes

    def environment(self) -> dict[str, str]:
        """Return the variables of the body."""
        items = [item for item in self.body.decode(errors="surrogateescape").split("\0") if item]
        return dict(item.split("=", 1) for item in items)


@dataclass(slots=True)
class Agent:
    """What the stand-in has seen so far."""

    socket_path: Path
    requests: list[Request] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    asked: threading.Event = field(default_factory=threading.Event)


def answer(exit_code: str = "0", line: bytes = b"healthy\n", status: str = "200 OK", extra: bytes = b"") -> bytes:
    """Return a whole answer of the agent."""
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(line)}\r\nNodevet-Exit: {exit_code}\r\n"
    return head.encode() + extra + b"\r\n" + line


def says(data: bytes) -> Behaviour:
    """Send ``data`` at once and close."""

    def behave(connection: socket.socket, _over: threading.Event) -> None:
        connection.sendall(data)

    return behave


def silent(_connection: socket.socket, over: threading.Event) -> None:
    """Keep the connection open and never answer."""
    over.wait(60)


def drips(data: bytes, seconds: float) -> Behaviour:
    """Send one byte every ``seconds``."""

    def behave(connection: socket.socket, over: threading.Event) -> None:
        for at in range(len(data)):
            if over.wait(seconds):
                return
            connection.sendall(data[at : at + 1])

    return behave


def listener(path: Path, backlog: int = 16) -> socket.socket:
    """Return a socket that listens at ``path``."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.bind(os.fspath(path))
    made.listen(backlog)
    return made


def read_request(connection: socket.socket) -> Request:
    """Read one whole request."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk:
            raise ConnectionError(f"request ended after {len(data)} bytes")
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    line, *lines = head.decode().split("\r\n")
    headers = {key.lower(): value for key, value in (item.split(": ", 1) for item in lines)}
    while len(body) < int(headers["content-length"]):
        chunk = connection.recv(65536)
        if not chunk:
            raise ConnectionError(f"body ended after {len(body)} bytes")
        body += chunk
    return Request(line, headers, body)


def serve(made: socket.socket, agent: Agent, behaviours: tuple[Behaviour, ...], over: threading.Event) -> None:
    """Answer as many connections as there are behaviours."""
    for behave in behaviours:
        try:
            connection, _ = made.accept()
            with connection:
                agent.requests.append(read_request(connection))
                agent.asked.set()
                behave(connection, over)
        except (OSError, ConnectionError) as error:
            agent.errors.append(str(error))


@contextmanager
def serving(path: Path, *behaviours: Behaviour) -> Iterator[Agent]:
    """Run an agent at ``path`` for the length of the block."""
    agent, over = Agent(path), threading.Event()
    made = listener(path)
    thread = threading.Thread(target=serve, args=(made, agent, behaviours, over), daemon=True)
    thread.start()
    try:
        yield agent
    finally:
        over.set()
        # An accept that is still waiting is not woken by close, but by shutdown.
        made.shutdown(socket.SHUT_RDWR)
        made.close()
        thread.join(5)
        path.unlink(missing_ok=True)
