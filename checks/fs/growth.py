"""A counter is judged by what it grew within a time, never by what it has counted in its life."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

KEPT = 512


@dataclass(slots=True)
class Growth:
    """What one counter was at each look, the times by our clock; one that went back began anew."""

    seen: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=KEPT))

    def within(self, now: float, value: int, seconds: float) -> int:
        """How much it grew within the last ``seconds``; the first look is the baseline."""
        if self.seen and value < self.seen[-1][1]:
            self.seen.clear()
        while len(self.seen) > 1 and now - self.seen[1][0] >= seconds:
            self.seen.popleft()
        self.seen.append((now, value))
        return value - self.seen[0][1]
