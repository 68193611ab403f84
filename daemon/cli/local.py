"""Asks the agent of this node over its unix socket, with bounded time and size."""

from __future__ import annotations

import http.client
import socket

from daemon.cli.output import NotAllowed, Refused, Unreachable

ANSWER_LIMIT = 4 * 1024 * 1024


class _Unix(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("agent", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket's path."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def get(path: str, resource: str, *, timeout: float = 5.0) -> bytes:
    """The body of a GET; raises Unreachable, NotAllowed or Refused."""
    connection = _Unix(path, timeout)
    try:
        connection.request("GET", resource)
        answer = connection.getresponse()
        body = answer.read(ANSWER_LIMIT)
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise Unreachable(f"no agent answers at {path}: {why}") from error
    finally:
        connection.close()
    if answer.status == 403:
        raise NotAllowed(f"agent at {path}: {body[:500].decode('utf-8', 'replace').strip()}")
    if answer.status != 200:
        raise Refused(f"agent at {path}: {answer.status} {body[:500].decode('utf-8', 'replace').strip()}")
    return body
