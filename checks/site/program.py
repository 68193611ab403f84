"""A program that changes the machine is asked to end when its time is over, never killed: the driver may have it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess  # noqa: TID251 - remedies are started here only: an argument list, no shell
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

OUTPUT_LIMIT = 16 * 1024
GRACE = 10.0
"""Seconds between TERM and giving it up."""
_ENV = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
_TICK = 0.05
# What did not end is reaped at a later call, should it ever end.
_left: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: its status (negative: that signal, None: not at all) and the head of what it printed.

    ``left``: the process that does not end although it was asked to.
    """

    status: int | None
    output: str
    why: Literal["", "slow"] = ""
    left: int = 0


def run_to_end(argv: Sequence[str], *, document: bytes = b"", limit: float, grace: float = GRACE) -> Ended:
    """Run a program for at most ``limit`` seconds, with ``document`` on its standard input; raises OSError.

    It has an environment of its own and its own process group. What it prints beyond a bound is thrown away.
    """
    _left[:] = [other for other in _left if other.poll() is None]
    child = subprocess.Popen(
        list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/", env=_ENV,
        start_new_session=True,
    )  # fmt: skip
    assert child.stdin is not None and child.stdout is not None
    talk = _Talk(child, document)
    try:
        if talk.until(time.monotonic() + limit):
            return Ended(child.wait(), talk.text)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM)
        if talk.until(time.monotonic() + grace):
            return Ended(child.wait(), talk.text, "slow")
        _left.append(child)
        return Ended(None, talk.text, "slow", child.pid)
    finally:
        for pipe in (child.stdin, child.stdout):
            with contextlib.suppress(OSError):
                pipe.close()


class _Talk:
    """Feeds a child and keeps the head of what it says; a grandchild that keeps the pipe open is not waited for."""

    def __init__(self, child: subprocess.Popen[bytes], document: bytes) -> None:
        assert child.stdin is not None and child.stdout is not None
        self._child, self._in, self._out = child, child.stdin.fileno(), child.stdout.fileno()
        self._left, self._got, self._open = document, bytearray(), True
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        if not document:
            child.stdin.close()

    @property
    def text(self) -> str:
        """What it said, as text."""
        return bytes(self._got).decode("utf-8", "replace")

    def until(self, deadline: float) -> bool:
        """Whether the child ended before ``deadline``."""
        while True:
            ended = self._child.poll() is not None
            self._read()
            if ended:
                return True
            if time.monotonic() >= deadline:
                return False
            self._write()
            watched = [self._out] if self._open else []
            select.select(watched, [], [], min(_TICK, max(0.0, deadline - time.monotonic())))

    def _read(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._open:
                chunk = os.read(self._out, 65536)
                self._open = bool(chunk)
                self._got += chunk[: max(0, OUTPUT_LIMIT - len(self._got))]
                if len(chunk) < 65536:
                    return

    def _write(self) -> None:
        if not self._left:
            return
        try:
            self._left = self._left[os.write(self._in, self._left[:65536]) :]
        except BlockingIOError:
            return
        except OSError:
            # It does not want to know; that is its own business.
            self._left = b""
        if not self._left and self._child.stdin is not None:
            self._child.stdin.close()
