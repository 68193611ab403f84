"""What passes between agent, zygote and lane: length-prefixed messages of bounded size."""

from __future__ import annotations

import socket
import struct
from typing import Literal

import msgspec

from checks.runner import Outcome
from checks.wire import JobAttempt

REQUEST_LIMIT = 2 * 1024 * 1024
REPLY_LIMIT = 2 * 1024 * 1024
HEAD = struct.Struct("!I")


class HostSpec(msgspec.Struct, frozen=True, kw_only=True):
    """How each lane opens its own Host; empty strings mean unset, ``captured`` that the kernel log is a kept one."""

    root: str = "/"
    kmsg: str = "/dev/kmsg"
    nvml_library: str = ""
    simulated: bool = False
    captured: bool = False


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One question to a lane: a check by name, or a function ``module:name`` called with the lane's Host first.

    ``memory``: what the check asked to have kept when it was asked last, be it by an earlier agent.
    """

    id: int
    kind: Literal["check", "call"] = "check"
    name: str
    options: dict[str, object] = {}
    job: JobAttempt | None = None
    manual: bool = False
    memory: dict[str, object] = {}


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A lane's answer: an outcome, a value, or why there is neither; ``keep`` is to be given with the next question."""

    id: int
    outcome: Outcome | None = None
    value: object = None
    error: str = ""
    keep: dict[str, object] = {}


class ForkRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Asks the zygote for a lane worker; the worker's end of a socket pair rides along."""

    token: int
    lane: str


class ZygoteNews(msgspec.Struct, frozen=True, kw_only=True):
    """What the zygote tells: it is ready, a worker was forked, a worker ended (``status`` as of waitpid)."""

    kind: Literal["ready", "forked", "ended"]
    token: int = 0
    pid: int = 0
    start: int = 0
    status: int = 0
    error: str = ""


def receive_exactly(sock: socket.socket, length: int) -> bytes | None:
    """Bytes from a blocking socket, None at its end."""
    parts = bytearray()
    while len(parts) < length:
        part = sock.recv(length - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)


def receive_message(sock: socket.socket, limit: int) -> bytes | None:
    """One framed message from a blocking socket, None at its end or when it is larger than ``limit``."""
    head = receive_exactly(sock, HEAD.size)
    if head is None:
        return None
    (length,) = HEAD.unpack(head)
    return receive_exactly(sock, length) if length <= limit else None


def framed(data: bytes) -> bytes:
    """``data`` with its length before it."""
    return HEAD.pack(len(data)) + data
