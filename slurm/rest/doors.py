"""Of several slurmrestd the one that answered last is asked, when it is away another, and in time the first again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence

from slurm.errors import Timeout, Unreachable
from slurm.rest.door import Answer, Door, NotConnected

BACK_SECONDS = 60.0
SHARE = 2.0  # the part of the time that one door may take while others are left: a half


class Doors:
    """One or several ways to slurmrestd, in the order in which they are wished for."""

    def __init__(self, doors: Sequence[Door], clock: Callable[[], float] = time.monotonic) -> None:
        self._doors = tuple(doors)
        self._clock = clock
        self._lock = threading.Lock()
        self._at = 0
        self._back = 0.0

    @property
    def address(self) -> object:
        """Where the next question goes, for people and tests."""
        return self._doors[self._at].address

    def ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, *, timeout: float, step: str
    ) -> Answer:
        """Ask one after the other until one answers; a change is sent again only where none had arrived."""
        deadline = self._clock() + timeout
        order = self._order()
        for number, at in enumerate(order):
            last = number == len(order) - 1
            left = max(0.05, deadline - self._clock()) if number else timeout
            try:
                answer = self._doors[at].ask(
                    method, path, headers, body, timeout=left if last else left / SHARE, step=step
                )
            except (Unreachable, Timeout) as error:
                if last or not (method == "GET" or isinstance(error, NotConnected)):
                    raise
                continue
            self._answered(at)
            return answer
        raise Unreachable(f"{step}: there is no slurmrestd to ask")

    def _order(self) -> list[int]:
        """The present one first, or the wished one when it is time to try it again."""
        with self._lock:
            if self._at != 0 and self._clock() >= self._back:
                self._back = self._clock() + BACK_SECONDS
                first = 0
            else:
                first = self._at
            present = self._at
        return list(dict.fromkeys((first, present, *range(len(self._doors)))))

    def _answered(self, at: int) -> None:
        with self._lock:
            if at != self._at:
                self._at, self._back = at, self._clock() + BACK_SECONDS
