"""The worker with pyslurm is started when needed, asked within a deadline, and after a crash not at once again."""

from __future__ import annotations

import os
import selectors
import signal
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from slurm.errors import BadAnswer, Busy, NoCommand, SlurmError, Timeout, Unreachable, error_for

MAX_ANSWER = 64 * 1024 * 1024
MAX_SAID = 4096  # bytes kept of what libslurm printed last
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
GRACE = 0.5  # seconds between TERM and KILL, and again before a process that does not die is left behind

_HEAD = struct.Struct(">I")


@dataclass
class _Running:
    """A worker that runs; `said` is the end of what it printed."""

    process: subprocess.Popen[bytes]
    answers: int
    errors: int
    buffer: bytearray = field(default_factory=bytearray)
    said: bytearray = field(default_factory=bytearray)


class Worker:
    """One worker process, shared by all threads, one question at a time."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._argv = list(argv)
        self._env = dict(env)
        self._clock = clock
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._failures = 0
        self._not_before = 0.0
        self._why = ""
        self._left_behind: list[subprocess.Popen[bytes]] = []

    def ask(self, question: Mapping[str, object], *, timeout: float, step: str) -> Mapping[str, object]:
        """Ask one question; Busy when another is asked all the time, Timeout, Unreachable when the worker ended."""
        deadline = time.monotonic() + timeout
        if not self._lock.acquire(timeout=timeout):
            raise Busy(f"{step}: the pyslurm worker answered others for {timeout:g} s")
        try:
            running = self._running or self._start(deadline, step)
            body = msgspec.json.encode(question)
            self._write(running, _HEAD.pack(len(body)) + body, deadline)
            answer = self._read(running, deadline, step)
            self._failures = 0
            return answer
        except TimeoutError:
            self._fail(f"did not answer {step} within {timeout:g} s", crashed=False)
            raise Timeout(step, timeout) from None
        except (_Ended, BadAnswer) as error:
            raise self._fail(str(error), step=step) from error
        finally:
            self._lock.release()

    def close(self) -> None:
        """End the worker; another question starts another one."""
        with self._lock:
            self._stop()

    def _start(self, deadline: float, step: str) -> _Running:
        if (left := self._not_before - self._clock()) > 0:
            raise Unreachable(f"{step}: the pyslurm worker {self._why}; it is started again in {left:.0f} s")
        try:
            process = subprocess.Popen(
                self._argv,
                env=self._env,
                cwd="/",
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise NoCommand(f"{step}: {self._argv[0]} does not start: {error.strerror}") from error
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        for pipe in (process.stdin, process.stdout, process.stderr):
            os.set_blocking(pipe.fileno(), False)
        self._running = running = _Running(process, process.stdout.fileno(), process.stderr.fileno())
        first = self._read(running, deadline, step)
        if first.get("ready") is not True:
            self._fail(f"has no pyslurm: {first.get('message')}")
            raise NoCommand(f"{step}: the pyslurm worker {self._why}")
        return running

    def _write(self, running: _Running, data: bytes, deadline: float) -> None:
        assert running.process.stdin is not None
        pipe, view = running.process.stdin.fileno(), memoryview(data)
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_WRITE)
            while view:
                if not selector.select(_left(deadline)):
                    raise TimeoutError
                try:
                    view = view[os.write(pipe, view) :]
                except BrokenPipeError:
                    raise _Ended(_end_of(running)) from None

    def _read(self, running: _Running, deadline: float, step: str) -> Mapping[str, object]:
        with selectors.DefaultSelector() as selector:
            for pipe in (running.answers, running.errors):
                selector.register(pipe, selectors.EVENT_READ)
            while (body := _message(running.buffer, step)) is None:
                ready = selector.select(_left(deadline))
                if not ready:
                    raise TimeoutError
                for key, _ in ready:
                    data = os.read(key.fd, 65536)
                    if key.fd == running.errors:
                        running.said[:] = (running.said + data)[-MAX_SAID:]
                        if not data:
                            selector.unregister(key.fd)
                    elif not data:
                        raise _Ended(_end_of(running))
                    else:
                        running.buffer += data
        try:
            answer = msgspec.json.decode(body)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise BadAnswer(f"{step}: the pyslurm worker's answer is not JSON: {error}") from error
        if not isinstance(answer, dict):
            raise BadAnswer(f"{step}: the pyslurm worker's answer is no document")
        return answer

    def _fail(self, why: str, *, step: str = "", crashed: bool = True) -> SlurmError:
        """End the worker, say when the next may be started, and say what its end means.

        Each crash doubles the pause; a controller that was slow is asked again after the shortest.
        """
        self._stop()
        pause = min(FIRST_PAUSE * 2.0**self._failures, LONGEST_PAUSE) if crashed else FIRST_PAUSE
        self._failures = min(self._failures + crashed, 16)
        self._not_before, self._why = self._clock() + pause, why
        meant = error_for(why, step=f"{step}: the pyslurm worker")
        return meant if type(meant) is not SlurmError else Unreachable(f"{step}: the pyslurm worker {why}")

    def _stop(self) -> None:
        running, self._running = self._running, None
        self._left_behind = [other for other in self._left_behind if other.poll() is None]
        if running is None:
            return
        process = running.process
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, sign)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(GRACE)
        if process.poll() is None:
            self._left_behind.append(process)


class _Ended(Exception):
    """The worker is gone; the text says how."""


def _end_of(running: _Running) -> str:
    with suppress(BlockingIOError, OSError):
        while data := os.read(running.errors, 65536):
            running.said[:] = (running.said + data)[-MAX_SAID:]
    with suppress(subprocess.TimeoutExpired):
        running.process.wait(GRACE)
    said = " ".join(running.said.decode("utf-8", "replace").split())[-300:]
    return f"ended with {running.process.returncode}: {said or 'it printed nothing'}"


def _message(buffer: bytearray, step: str) -> bytes | None:
    """Take one message off the buffer; None while it is not whole."""
    if len(buffer) < _HEAD.size:
        return None
    length = _HEAD.unpack_from(buffer)[0]
    if length > MAX_ANSWER:
        raise BadAnswer(f"{step}: answer of {length} bytes, at most {MAX_ANSWER}")
    if len(buffer) < _HEAD.size + length:
        return None
    body = bytes(buffer[_HEAD.size : _HEAD.size + length])
    del buffer[: _HEAD.size + length]
    return body


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
