"""A lane answers one request after the other in its own process, with its own Host, until its agent goes away."""

from __future__ import annotations

import importlib
import socket
import time
from pathlib import Path
from typing import Any

import msgspec

from checks import CHECKS, Host
from checks.catalog import option_types
from checks.runner import run_check
from daemon.lanes.memory import fits
from daemon.lanes.wire import REPLY_LIMIT, REQUEST_LIMIT, HostSpec, Reply, Request, framed, receive_message

# Questions that come closer than this behind an answer are of the same look at the node; seconds.
PAUSE = 0.003
LONGEST_LOOK = 0.25
CALLABLE = ("daemon.", "checks.")
# Made once, before the fork, and shared by all lanes.
_decoder = msgspec.msgpack.Decoder(Request)
_encoder = msgspec.msgpack.Encoder()
_types: dict[str, dict[str, Any]] = {}
# Not even a directory, so nothing is found there and no disk is asked.
_NOWHERE = Path("/dev/null/nowhere")
_REHEARSED = (
    "checks.dcgm.",
    "checks.fs.",
    "checks.gpu.",
    "checks.log.",
    "checks.net.",
    "checks.software.",
    "checks.system.",
)
_REHEARSALS = 10


def serve(sock: socket.socket, host: Host) -> None:
    """Answer until the agent closes its end or sends what is not a request."""
    begun = answered = float("-inf")
    while (data := receive_message(sock, REQUEST_LIMIT)) is not None:
        now = time.monotonic()
        if now - answered > PAUSE or now - begun > LONGEST_LOOK:
            host.look, begun = host.look + 1, now
        sock.sendall(framed(_encoded(answer(_decoder.decode(data), host))))
        answered = time.monotonic()


def open_host(spec: HostSpec) -> Host:
    """The Host of a lane; nothing is opened before a check asks for it."""
    return Host(
        root=Path(spec.root),
        kmsg=Path(spec.kmsg) if spec.kmsg else None,
        nvml_library=Path(spec.nvml_library) if spec.nvml_library else None,
        simulated=spec.simulated,
        captured=spec.captured,
    )


def answer(request: Request, host: Host) -> Reply:
    """Run what is asked; whatever it raises becomes the reply's error."""
    host.job, host.memory, host.keeps = request.job, request.memory, {}
    try:
        if request.kind == "call":
            return Reply(id=request.id, value=_call(request, host))
        declared = CHECKS.get(request.name)
        if declared is None:
            return Reply(id=request.id, error=f"check {request.name} is not known to the lane")
        options = {name: _typed(request.name, name, value) for name, value in request.options.items()}
        outcome = run_check(declared, host, options, manual=request.manual)
        return Reply(id=request.id, outcome=outcome, keep=host.keeps if not host.keeps or fits(host.keeps) else {})
    except Exception as error:
        return Reply(id=request.id, error=f"{type(error).__name__}: {error}"[:500])


def prepare() -> None:
    """Work out the types of all options before the fork: done in each lane it would cost a MiB each."""
    for name, declared in CHECKS.items():
        try:
            _types[name] = option_types(declared)
        except Exception:
            # A site's check with a type that does not exist: its settings are refused when they are given.
            continue


def rehearse() -> None:
    """Answer each of our own checks a few times over a tree that is nowhere, before the fork.

    What the interpreter makes of code while it runs for the first times, and what is looked up once, is then made once
    for all lanes instead of once in each.
    """
    nowhere = Host(root=_NOWHERE, kmsg=_NOWHERE)
    for name, declared in CHECKS.items():
        if declared.function.__module__.startswith(_REHEARSED):
            asked = _encoder.encode(Request(id=0, name=name))
            for _ in range(_REHEARSALS):
                _encoded(answer(_decoder.decode(asked), nowhere))


def _typed(check: str, option: str, value: object) -> object:
    """The agent sends converted values; only what has no form of its own on the way (a tuple) is made again."""
    known = _types.get(check, {})
    if option not in known:
        raise ValueError(f"check {check} has no setting {option!r}")
    return value if isinstance(value, str | int | float | None) else msgspec.convert(value, known[option])


def _call(request: Request, host: Host) -> object:
    module, _, function = request.name.partition(":")
    if not module.startswith(CALLABLE):
        raise ValueError(f"function {request.name} is not one of ours")
    return getattr(importlib.import_module(module), function)(host, **request.options)


def _encoded(reply: Reply) -> bytes:
    data = _encoder.encode(reply)
    if len(data) <= REPLY_LIMIT:
        return data
    error = f"reply of {len(data)} bytes, at most {REPLY_LIMIT} are taken"
    return msgspec.msgpack.encode(Reply(id=reply.id, error=error))
