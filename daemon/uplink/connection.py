"""One kept HTTP/1.1 connection whose every exchange has a total deadline, however slowly the other side drips."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Mapping

import h11

ANSWER_LIMIT = 32 * 1024 * 1024
_CHUNK = 256 * 1024


class NoAnswer(ConnectionError):
    """The connection ended before anything of an answer had come."""


class Garbled(Exception):
    """What came is no HTTP, too long, or ends too early."""


class Connection:
    """To one server, opened at the first exchange and again after each failure; for one thread at a time."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None) -> None:
        self._host, self._port, self._tls = host, port, tls
        self._sock: socket.socket | None = None
        self._http = h11.Connection(h11.CLIENT)
        bracketed = f"[{host}]" if ":" in host else host
        self._name = f"{bracketed}:{port}"

    @property
    def kept(self) -> bool:
        """Whether the next exchange goes over a connection that was used before."""
        return self._sock is not None

    def exchange(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None, deadline: float
    ) -> tuple[int, bytes]:
        """Status and body of the answer; raises OSError (TimeoutError, NoAnswer) or Garbled."""
        try:
            sock = self._open(deadline)
            self._send(sock, method, target, headers, body, deadline)
            status, data = self._receive(sock, deadline)
            if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
                self._http.start_next_cycle()
            else:
                self.close()
        except h11.ProtocolError as error:
            self.close()
            raise Garbled(str(error)) from error
        except BaseException:
            self.close()
            raise
        return status, data

    def close(self) -> None:
        """Drop the connection."""
        if self._sock is not None:
            with contextlib.suppress(OSError):
                self._sock.close()
            self._sock = None

    def _open(self, deadline: float) -> socket.socket:
        if self._sock is None:
            plain = socket.create_connection((self._host, self._port), timeout=_left(deadline))
            try:
                plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                plain.settimeout(_left(deadline))
                self._sock = self._tls.wrap_socket(plain, server_hostname=self._host) if self._tls else plain
            except BaseException:
                plain.close()
                raise
            self._http = h11.Connection(h11.CLIENT)
        return self._sock

    def _send(
        self,
        sock: socket.socket,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        deadline: float,
    ) -> None:
        length = {} if body is None else {"Content-Length": str(len(body))}
        every = [("Host", self._name), *headers.items(), *length.items()]
        data = self._http.send(h11.Request(method=method, target=target, headers=every)) or b""
        if body:
            data += self._http.send(h11.Data(data=body)) or b""
        data += self._http.send(h11.EndOfMessage()) or b""
        sock.settimeout(_left(deadline))
        try:
            sock.sendall(data)
        except ConnectionError as error:
            raise NoAnswer(str(error)) from error

    def _receive(self, sock: socket.socket, deadline: float) -> tuple[int, bytes]:
        status, received, body = 0, False, bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                sock.settimeout(_left(deadline))
                data = self._read(sock, received)
                received = True
                self._http.receive_data(data)
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > ANSWER_LIMIT:
                    raise Garbled(f"answer of more than {ANSWER_LIMIT} bytes")
            elif isinstance(event, h11.EndOfMessage):
                return status, bytes(body)
            elif not isinstance(event, h11.InformationalResponse):
                raise Garbled("connection ended within the answer")

    def _read(self, sock: socket.socket, received: bool) -> bytes:
        try:
            data = sock.recv(_CHUNK)
        except ConnectionError as error:
            if received:
                raise
            raise NoAnswer(str(error)) from error
        if not data and not received:
            raise NoAnswer("connection was closed without an answer")
        return data


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("no time left")
    return left
