"""However many nodes fail at once, automation asks slurmctld a handful of questions a second and no more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

# In requests to slurmctld, as its own statistics count them: scontrol asks for partitions before it shows a node, and
# squeue for the federation before it shows a job.
READ = 2
WRITE = 1
JOB = 2
DRAIN = READ + WRITE + READ
BURST_SECONDS = 2.0
STEP = 0.25


class Pace:
    """A bucket of requests that fills at ``rate`` a second; who needs more than there is waits for its turn.

    Writes cannot be put together: each reason carries the token of its own drain record, and between the read that
    was judged and the write no more than 50 ms may pass, which no list of nodes allows. So their rate is bounded. The
    one bulk read an interval, and what people ask for, is not counted here.
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._most = max(rate * BURST_SECONDS, float(JOB + DRAIN))
        self._clock = clock
        self._left = self._most
        self._at = clock()
        self._line = asyncio.Lock()
        self.put_off = False  # whether a node waits for its turn, so that another look is due soon

    def take(self, requests: int) -> bool:
        """Take so many requests if they may be made now; whether they may."""
        now = self._clock()
        self._left = min(self._most, self._left + (now - self._at) * self._rate)
        self._at = now
        if self._left < requests:
            return False
        self._left -= requests
        return True

    def give(self, requests: int) -> None:
        """Put back what was not needed."""
        self._left += requests

    async def turn(self, requests: int, wanted: Callable[[], bool] = lambda: True) -> bool:
        """Wait in the order of asking; False, and nothing taken, when it is not ``wanted`` any more by then."""
        async with self._line:
            while wanted():
                if self.take(requests):
                    return True
                await asyncio.sleep(min(STEP, (requests - self._left) / self._rate))
            return False
