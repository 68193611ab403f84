"""Guessing is slow and does not fill the audit; a good token is never held back by somebody else's guesses."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

WINDOW = 60.0
FREE_FAILURES = 10
ADDRESSES = 4096
AUDIT_PER_WINDOW = 60


class Throttle:
    """Counts failures per address, and the lines that refusals may add to the audit."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._audited = (clock(), 0)
        self.unaudited = 0

    def failed(self, address: str) -> float:
        """Note a failure; seconds for which this address gets 429, 0 while it may try on."""
        now = self._clock()
        began, count = self._failures.pop(address, (now, 0))
        if now - began > WINDOW:
            began, count = now, 0
        self._failures[address] = (began, count + 1)
        while len(self._failures) > ADDRESSES:
            self._failures.popitem(last=False)
        return max(1.0, began + WINDOW - now) if count + 1 > FREE_FAILURES else 0.0

    def may_audit(self) -> bool:
        """Whether a refusal may add a line; the ones left out are counted."""
        now = self._clock()
        began, count = self._audited
        if now - began > WINDOW:
            began, count = now, 0
        self._audited = (began, count + 1)
        if count < AUDIT_PER_WINDOW:
            return True
        self.unaudited += 1
        return False
