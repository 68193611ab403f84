"""One exchange with slurmrestd takes one connection, one deadline for everything, and a bounded answer."""

from __future__ import annotations

import os
import queue
import re
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import h11

from slurm.errors import BadAnswer, PermissionDenied, SlurmError, Timeout, Unreachable

MAX_BODY = 64 * 1024 * 1024
MAX_HEAD = 64 * 1024
PIECE = 65536
LONGEST_SOCKET_PATH = 107  # bytes, by Linux

_PLAIN = re.compile(r"[A-Za-z0-9._~:/\[\]-]+")


class NotConnected(Unreachable):
    """No connection came about, so that nothing of the question has arrived anywhere."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer's status and body."""

    status: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Address:
    """Where slurmrestd listens: a unix socket when `path` is set, else host and port, with TLS or without."""

    host: str = "localhost"
    port: int = 0
    path: str = ""
    tls: bool = False
    prefix: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"unix:{self.path}"
        return f"{'https' if self.tls else 'http'}://{self.authority}{self.prefix}"

    @property
    def authority(self) -> str:
        """What the Host header says."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def private(self) -> bool:
        """Whether nobody on the way can read the token: TLS, a unix socket or a loopback address."""
        return self.tls or bool(self.path) or self.host in {"localhost", "::1"} or self.host.startswith("127.")


def parse_address(text: str) -> Address:
    """Read ``http://host:port``, ``https://host:port/prefix``, ``unix:/path`` or ``/path``; ValueError for the rest."""
    if text.startswith(("unix:", "/")):
        path = "/" + text.removeprefix("unix:").lstrip("/")
        if len(os.fsencode(path)) > LONGEST_SOCKET_PATH or path == "/":
            raise ValueError(f"{text[:200]!r} is no path of a unix socket of at most {LONGEST_SOCKET_PATH} bytes")
        return Address(path=path)
    parts = urlsplit(text)
    # What stands in a request line or a header is held to characters that mean nothing there.
    if _PLAIN.fullmatch(text) is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"{text[:200]!r} is none of http://HOST:PORT, https://HOST:PORT and unix:/PATH")
    tls = parts.scheme == "https"
    return Address(parts.hostname, parts.port or (443 if tls else 6820), tls=tls, prefix=parts.path.rstrip("/"))


class Door:
    """Opens one connection for each exchange; no shared state but the address of the last look-up."""

    def __init__(self, address: Address, *, ca_file: str = "", max_body: int = MAX_BODY) -> None:
        self.address = address
        self._max_body = max_body
        self._tls = ssl.create_default_context(cafile=ca_file or None) if address.tls else None

    def ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, *, timeout: float, step: str
    ) -> Answer:
        """Exchange one question for one answer; Timeout, Unreachable, PermissionDenied or BadAnswer when it fails."""
        clock = _Clock(timeout, step)
        try:
            with self._connected(clock) as connection:
                return self._exchange(connection, clock, method, path, headers, body)
        except TimeoutError:
            raise Timeout(step, timeout) from None
        except PermissionError as error:
            raise PermissionDenied(f"{step}: {self.address}: {error.strerror}") from error
        except ssl.SSLCertVerificationError as error:
            raise SlurmError(f"{step}: {self.address}: certificate is not accepted: {error.verify_message}") from error
        except OSError as error:
            raise Unreachable(f"{step}: {self.address}: {error.strerror or error}") from error
        except h11.RemoteProtocolError as error:
            raise BadAnswer(f"{step}: {self.address}: answer is not HTTP: {error}") from error

    def _connected(self, clock: _Clock) -> socket.socket:
        try:
            return self._connect(clock)
        except (TimeoutError, PermissionError, ssl.SSLCertVerificationError):
            raise
        except OSError as error:
            raise NotConnected(f"{clock.step}: {self.address}: {error.strerror or error}") from error

    def _connect(self, clock: _Clock) -> socket.socket:
        address = self.address
        if address.path:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.settimeout(clock.left())
                connection.connect(address.path)
            except BaseException:
                connection.close()
                raise
            return connection
        connection = _first(_look_up(address.host, address.port, clock), clock)
        if self._tls is None:
            return connection
        try:
            connection.settimeout(clock.left())
            return self._tls.wrap_socket(connection, server_hostname=address.host)
        except BaseException:
            connection.close()
            raise

    def _exchange(
        self,
        connection: socket.socket,
        clock: _Clock,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> Answer:
        talk = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD)
        host = "localhost" if self.address.path else self.address.authority
        fields = {"Host": host, "Accept": "application/json", "Connection": "close", **headers}
        if body is not None:
            fields |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
        request = h11.Request(method=method, target=self.address.prefix + path, headers=list(fields.items()))
        data = (talk.send(request) or b"") + ((talk.send(h11.Data(data=body)) or b"") if body else b"")
        connection.settimeout(clock.left())
        connection.sendall(data + (talk.send(h11.EndOfMessage()) or b""))
        return self._answer(connection, talk, clock)

    def _answer(self, connection: socket.socket, talk: h11.Connection, clock: _Clock) -> Answer:
        status, body = 0, bytearray()
        while True:
            event = talk.next_event()
            if event is h11.NEED_DATA:
                connection.settimeout(clock.left())
                talk.receive_data(connection.recv(PIECE))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > self._max_body:
                    raise BadAnswer(f"{clock.step}: answer is longer than {self._max_body} bytes")
            elif isinstance(event, h11.EndOfMessage):
                return Answer(status, bytes(body))
            elif isinstance(event, h11.ConnectionClosed):
                raise BadAnswer(f"{clock.step}: {self.address}: connection closed before the answer")


class _Clock:
    """What is left of one exchange's time."""

    def __init__(self, seconds: float, step: str) -> None:
        self.step = step
        self._deadline = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds that are left, or TimeoutError."""
        seconds = self._deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds


_Found = list[tuple[int, tuple[object, ...]]]
_hung: dict[tuple[str, int], threading.Thread] = {}  # look-ups that did not come back: at most one a name


def _look_up(host: str, port: int, clock: _Clock) -> _Found:
    """Find a host's addresses; a resolver can hang for minutes, so it is asked in a thread that may stay behind."""
    key = (host, port)
    if (before := _hung.get(key)) is not None and before.is_alive():
        raise TimeoutError
    answers: queue.SimpleQueue[_Found | OSError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answers.put([(family, tuple(address)) for family, _, _, _, address in found])
        except OSError as error:
            answers.put(error)
        except UnicodeError as error:
            answers.put(OSError(f"host name is none: {error}"))

    thread = threading.Thread(target=ask, name="slurmrestd look-up", daemon=True)
    thread.start()
    try:
        answer = answers.get(timeout=clock.left())
    except queue.Empty:
        _hung[key] = thread
        raise TimeoutError from None
    _hung.pop(key, None)
    if isinstance(answer, OSError):
        raise answer
    return answer


def _first(found: _Found, clock: _Clock) -> socket.socket:
    """Connect to the first address that answers."""
    last: OSError = OSError("no address")
    for family, address in found:
        connection = socket.socket(family, socket.SOCK_STREAM)
        try:
            connection.settimeout(clock.left())
            connection.connect(address)
        except OSError as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise
            last = error
            continue
        return connection
    raise last
