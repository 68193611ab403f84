"""Other programs are started here only: an argument list, a bare environment, bounded time and output, no shell."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

OUTPUT_LIMIT = 64 * 1024
_GRACE, _DEATH = 1.0, 5.0
"""Seconds that one has to end after TERM, and to be gone after KILL, which only the kernel can hold up."""


@dataclass(frozen=True, slots=True)
class Done:
    """How a program ended: its status (None: not in time) and the beginning of what it printed."""

    status: int | None
    output: str


def run(argv: Sequence[str], env: Mapping[str, str], *, timeout: float) -> Done:
    """Run a program for at most ``timeout`` seconds; raises OSError when it cannot be started.

    One that does not end is asked to (TERM), then killed, and never waited for: it may sit in the kernel.
    """
    child = subprocess.Popen(
        list(argv), env=dict(env), cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        output, _ = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        if child.stdout is not None:
            child.stdout.close()
        for end, grace in ((child.terminate, _GRACE), (child.kill, _DEATH)):
            end()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(grace)
                break
        return Done(None, "")
    return Done(child.returncode, output[:OUTPUT_LIMIT].decode("utf-8", "replace"))
