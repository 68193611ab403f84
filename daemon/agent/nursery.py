"""A tiny process forked before any socket, thread or TLS exists forks the agent's helpers from its clean state."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable

from daemon.lanes import process

Entry = Callable[[socket.socket], None]
_ANSWER_WITHIN = 5.0
_MESSAGE = 256


class NurseryError(OSError):
    """No helper could be started."""


class Nursery:
    """Starts and ends helper processes; each gets one end of a socket pair and lives until that ends."""

    def __init__(self, sock: socket.socket, pid: int) -> None:
        self._sock = sock
        self.pid = pid

    @classmethod
    def start(cls, entries: dict[str, Entry]) -> Nursery:
        """Fork the nursery; call it before the loop, sockets and threads exist."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if pid == 0:
            _become(lambda sock: _serve(sock, entries), theirs.detach(), "nodevet-nursery")
        theirs.close()
        ours.settimeout(_ANSWER_WITHIN)
        return cls(ours, pid)

    def spawn(self, entry: str) -> tuple[int, socket.socket]:
        """Fork a helper that runs ``entry``; gives its pid and our end of its socket pair."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                socket.send_fds(self._sock, [f"spawn {entry}".encode()], [theirs.fileno()])
            answer = self._sock.recv(_MESSAGE).decode()
            return int(answer), ours
        except (OSError, ValueError) as error:
            ours.close()
            raise NurseryError(f"helper {entry} was not started: {error}") from error

    def kill(self, pid: int) -> None:
        """End a helper that does not come back; only children of the nursery can be meant."""
        with contextlib.suppress(OSError):
            self._sock.send(f"kill {pid}".encode())

    def close(self) -> None:
        """Let the nursery end; helpers end with their own sockets."""
        self._sock.close()


def _become(body: Callable[[socket.socket], None], kept: int, name: str) -> None:
    """Be the forked child with one descriptor left; never a way back into the parent's stack."""
    status = 1
    try:
        descriptor = process.let_go(kept)
        process.settle()
        process.set_name(name)
        body(socket.socket(fileno=descriptor))
        status = 0
    finally:
        os._exit(status)


def _serve(sock: socket.socket, entries: dict[str, Entry]) -> None:
    children: set[int] = set()
    while True:
        message, fds, _, _ = socket.recv_fds(sock, _MESSAGE, 4)
        if not message:
            return
        _reap(children)
        verb, _, rest = message.decode().partition(" ")
        if verb == "spawn" and rest in entries and fds:
            pid = os.fork()
            if pid == 0:
                _become(entries[rest], fds[0], f"nv-{rest}")
            children.add(pid)
            sock.send(str(pid).encode())
        elif verb == "kill" and rest.isdigit() and int(rest) in children:
            os.kill(int(rest), signal.SIGKILL)
        for fd in fds:
            os.close(fd)


def _reap(children: set[int]) -> None:
    for pid in list(children):
        with contextlib.suppress(ChildProcessError):
            done, _ = os.waitpid(pid, os.WNOHANG)
            if done == 0:
                continue
        children.discard(pid)
