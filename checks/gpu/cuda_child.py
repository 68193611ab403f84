"""cuInit is called by a process that does nothing else, holds nothing of ours and ends at once."""

from __future__ import annotations

import ctypes
import os
import select
import signal
import time
from dataclasses import dataclass

SONAME = "libcuda.so.1"
_ENDING = 2.0
"""Seconds that an ended process is given to go."""
_LIMIT = 4096
_NO_MPS = "/dev/null/none"
_DROPPED = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_INJECTION64_PATH")


@dataclass(frozen=True, slots=True)
class Told:
    """The result of cuInit, or of what was asked behind it; how many devices there are, and how long it took."""

    error: int
    count: int
    seconds: float


@dataclass(frozen=True, slots=True)
class NotLoaded:
    """The loader refused the library."""

    why: str


def ask(library: str, patience: float) -> Told | NotLoaded | str:
    """What CUDA says, or in words why it said nothing.

    It comes back late, or never, when the process does not end although it was asked to: then it sits in the driver.
    """
    reading, writing = os.pipe()
    begun = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _child(library, writing)
    os.close(writing)
    try:
        text = _heard(reading, begun + patience)
        if text is None:
            return f"{patience:g} s are over{_ended(pid)}"
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(reading)
    return _meaning(text, status, time.monotonic() - begun)


def _heard(reading: int, deadline: float) -> bytes | None:
    """Everything the process wrote until it closed its end; None when it is not done in time."""
    poll, text = select.poll(), b""
    poll.register(reading, select.POLLIN)
    while (left := deadline - time.monotonic()) > 0:
        if not poll.poll(left * 1000):
            continue
        piece = os.read(reading, _LIMIT)
        if not piece or len(text) > _LIMIT:
            return text
        text += piece
    return None


def _ended(pid: int) -> str:
    """Ask it to end and wait until it has; its parent is watched, and so is who does not come back here."""
    asked = time.monotonic()
    os.kill(pid, signal.SIGTERM)
    os.waitpid(pid, 0)
    late = time.monotonic() - asked
    return f", it took {late:.0f} s more to end" if late > _ENDING else ""


def _meaning(text: bytes, status: int, seconds: float) -> Told | NotLoaded | str:
    words = text.decode("utf-8", "replace").split(" ", 1)
    if words[0] == "not-loaded" and len(words) == 2:
        return NotLoaded(words[1][:300])
    numbers = text.split()
    if len(numbers) == 2 and all(n.isdigit() for n in numbers):
        return Told(int(numbers[0]), int(numbers[1]), round(seconds, 3))
    if os.WIFSIGNALED(status):
        return f"its process was ended by signal {os.WTERMSIG(status)}"
    return f"its process ended with {os.waitstatus_to_exitcode(status)}"


def _child(library: str, writing: int) -> None:
    """The process's whole life; never returns."""
    try:
        _let_go(writing)
        os.environ["CUDA_MPS_PIPE_DIRECTORY"] = _NO_MPS  # a daemon of a user's would start a server for us
        for name in _DROPPED:
            os.environ.pop(name, None)
        os.write(3, _asked(library).encode())
    except BaseException:
        os._exit(3)
    os._exit(0)


def _let_go(writing: int) -> None:
    """Keep only the way to our parent, as number 3; end when it ends, and by the first SIGTERM."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    null = os.open("/dev/null", os.O_RDWR)
    for standard in range(3):
        os.dup2(null, standard)
    if writing != 3:
        os.dup2(writing, 3)
    os.closerange(4, 65536)
    ctypes.CDLL(None).prctl(1, signal.SIGTERM, 0, 0, 0)


def _asked(library: str) -> str:
    try:
        cuda = ctypes.CDLL(library)
        count = ctypes.c_int(0)
        error = int(cuda.cuInit(0)) or int(cuda.cuDeviceGetCount(ctypes.byref(count)))
    except (OSError, AttributeError) as refused:
        return f"not-loaded {refused}"
    return f"{error} {max(0, count.value)}"
