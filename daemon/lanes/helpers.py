"""Forks the agent's helper processes (outbox, uplink) from a clean ancestor and ends those that do not come back."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import socket
from collections.abc import Callable, Mapping

from daemon.lanes import process

Entry = Callable[[socket.socket], None] | str
"""What a helper runs, or ``module:function`` that is imported in the helper alone."""
MESSAGE = 256


class Helpers:
    """The ancestor's end: one socket of requests, and the children it has forked for it."""

    def __init__(self, sock: socket.socket, entries: Mapping[str, Entry]) -> None:
        self._sock = sock
        self._entries = entries
        self._children: set[int] = set()

    def fileno(self) -> int:
        """The descriptor that becomes readable when something is wanted."""
        return self._sock.fileno()

    def serve_one(self) -> bool:
        """Carry one request out; False when nobody is left to ask."""
        message, fds, _, _ = socket.recv_fds(self._sock, MESSAGE, 4)
        if not message:
            return False
        verb, _, rest = message.decode().partition(" ")
        if verb == "spawn" and rest in self._entries and fds:
            self._spawn(rest, fds[0])
        elif verb == "kill" and rest.isdigit() and int(rest) in self._children:
            os.kill(int(rest), signal.SIGKILL)
        for fd in fds:
            os.close(fd)
        return True

    def _spawn(self, name: str, descriptor: int) -> None:
        pid = os.fork()
        if pid == 0:
            become(self._entries[name], descriptor, f"nv-{name}")
        self._children.add(pid)
        self._sock.send(str(pid).encode())

    def ended(self, pid: int) -> bool:
        """Forget a child that was collected; False when it was none of ours."""
        known = pid in self._children
        self._children.discard(pid)
        return known

    def reap(self) -> None:
        """Collect the children that have ended."""
        for pid in list(self._children):
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    continue
            self._children.discard(pid)


def become(entry: Entry, kept: int, name: str) -> None:
    """Be the forked child with one descriptor left; never a way back into the parent's stack.

    It outlives its ancestor until its own socket ends: what was handed over is still written and sent.
    """
    status = 1
    try:
        descriptor = process.let_go(kept)
        process.settle()
        process.set_name(name)
        _named(entry)(socket.socket(fileno=descriptor))
        status = 0
    finally:
        os._exit(status)


def _named(entry: Entry) -> Callable[[socket.socket], None]:
    if not isinstance(entry, str):
        return entry
    module, _, function = entry.partition(":")
    found: Callable[[socket.socket], None] = getattr(importlib.import_module(module), function)
    return found
