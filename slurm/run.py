"""A command of Slurm runs without a shell, in a process group of its own, with a hard limit of time and of output."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Protocol

from slurm.errors import BadAnswer, NoCommand, Timeout

SAFE_PATH = "/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin:/usr/local/sbin:/opt/slurm/bin:/usr/local/slurm/bin"
TIMEOUT = 10.0  # seconds; with slurmctld away scontrol itself gives up after 9
GRACE = 0.5  # seconds between TERM and KILL, and again before a process that does not die is left behind
MAX_OUTPUT = 64 * 1024 * 1024
MAX_ERRORS = 64 * 1024


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended and what it printed."""

    code: int
    out: bytes
    err: bytes


class Run(Protocol):
    """Runs one command; raises Timeout with `step` when it does not end, BadAnswer when it prints too much."""

    def __call__(self, argv: Sequence[str], *, env: Mapping[str, str], timeout: float, step: str) -> Ended: ...


def run_command(argv: Sequence[str], *, env: Mapping[str, str], timeout: float, step: str) -> Ended:
    """Run a command from `env`'s PATH in a process group of its own.

    One that does not end within `timeout` seconds is terminated, then killed, then left behind: it is never waited for.
    """
    executable = shutil.which(argv[0], path=env["PATH"])
    if executable is None:
        raise NoCommand(f"{step}: {argv[0]} is not in {env['PATH']}")
    try:
        process = subprocess.Popen(
            [executable, *argv[1:]],
            env=dict(env),
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise NoCommand(f"{step}: {executable} does not start: {error.strerror}") from error
    deadline = time.monotonic() + timeout
    try:
        out, err = _read(process, deadline, step)
        code = process.wait(max(0.0, deadline - time.monotonic()))
    except (TimeoutError, subprocess.TimeoutExpired):
        raise Timeout(step, timeout) from None
    finally:
        _end(process)
    return Ended(code, out, err)


def _read(process: subprocess.Popen[bytes], deadline: float, step: str) -> tuple[bytes, bytes]:
    assert process.stdout is not None and process.stderr is not None
    limits: dict[IO[bytes], int] = {process.stdout: MAX_OUTPUT, process.stderr: MAX_ERRORS}
    chunks: dict[IO[bytes], bytearray] = {process.stdout: bytearray(), process.stderr: bytearray()}
    with selectors.DefaultSelector() as selector:
        for pipe in chunks:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if time.monotonic() >= deadline:
                raise TimeoutError
            for key, _ in ready:
                pipe = next(pipe for pipe in chunks if pipe is key.fileobj)
                data = os.read(pipe.fileno(), 65536)
                if not data:
                    selector.unregister(pipe)
                chunks[pipe] += data
                if len(chunks[pipe]) > limits[pipe]:
                    raise BadAnswer(f"{step}: output is longer than {limits[pipe]} bytes")
    return bytes(chunks[process.stdout]), bytes(chunks[process.stderr])


_left_behind: list[subprocess.Popen[bytes]] = []  # reaped at a later call, should they ever end


def _end(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
    _left_behind[:] = [other for other in _left_behind if other.poll() is None]
    if process.poll() is None:
        _left_behind.append(process)
