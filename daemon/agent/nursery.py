"""The agent asks an ancestor, forked before any socket, thread or TLS exists, for its helper processes."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping

from daemon.lanes.helpers import MESSAGE, Entry, Helpers, become

_ANSWER_WITHIN = 5.0


class NurseryError(OSError):
    """No helper could be started."""


class Nursery:
    """Starts and ends helper processes; each gets one end of a socket pair and lives until that ends."""

    def __init__(self, sock: socket.socket, pid: int) -> None:
        sock.settimeout(_ANSWER_WITHIN)
        self._sock = sock
        self.pid = pid

    @classmethod
    def start(cls, entries: Mapping[str, Entry]) -> Nursery:
        """Fork an ancestor for helpers alone, where there is no zygote; before the loop, sockets and threads exist."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            become(lambda sock: _serve(sock, entries), theirs.detach(), "nodevet-nursery")
        theirs.close()
        return cls(ours, pid)

    def spawn(self, entry: str) -> tuple[int, socket.socket]:
        """Fork a helper that runs ``entry``; gives its pid and our end of its socket pair."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(self._sock, [f"spawn {entry}".encode()], [theirs.fileno()])
            answer = self._sock.recv(MESSAGE).decode()
            return int(answer), ours
        except (OSError, ValueError) as error:
            ours.close()
            raise NurseryError(f"helper {entry} was not started: {error}") from error

    def kill(self, pid: int) -> None:
        """End a helper that does not come back; only children of the ancestor can be meant."""
        with contextlib.suppress(OSError):
            self._sock.send(f"kill {pid}".encode())

    def close(self) -> None:
        """Let the ancestor serve nobody any more; helpers end with their own sockets."""
        self._sock.close()


def _serve(sock: socket.socket, entries: Mapping[str, Entry]) -> None:
    helpers = Helpers(sock, entries)
    while helpers.serve_one():
        helpers.reap()
