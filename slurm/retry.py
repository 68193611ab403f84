"""A busy controller is asked again, a little later and not in step with others, until a deadline."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from slurm.errors import Busy

FIRST_WAIT = 0.1
LONGEST_WAIT = 5.0

_T = TypeVar("_T")


def until(
    seconds: float,
    call: Callable[[], _T],
    *,
    wait: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
    jitter: Callable[[], float] = random.random,
) -> _T:
    """Call until it is not refused as Busy; after `seconds` the last refusal is raised.

    Waits double from 0.1 s to 5 s, each shortened at random by up to half. Any other error is raised at once.
    """
    deadline = clock() + seconds
    pause = FIRST_WAIT
    while True:
        try:
            return call()
        except Busy:
            this = pause * (1 - jitter() / 2)
            if clock() + this >= deadline:
                raise
            wait(this)
            pause = min(2 * pause, LONGEST_WAIT)
