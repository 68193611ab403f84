"""What was seen of one GPU at earlier looks, within a window of time."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
KEPT = 256


@dataclass(slots=True)
class Samples(Generic[T]):
    """Values with the times of our clock, the oldest not older than ``within`` seconds but for one."""

    within: float
    seen: deque[tuple[float, T]] = field(default_factory=lambda: deque(maxlen=KEPT))

    def add(self, now: float, value: T) -> None:
        """One more look; what lies before the window is forgotten."""
        while len(self.seen) > 1 and now - self.seen[1][0] >= self.within:
            self.seen.popleft()
        self.seen.append((now, value))

    def seconds(self) -> float:
        """From the first look that is remembered to the last."""
        return self.seen[-1][0] - self.seen[0][0] if self.seen else 0.0

    def values(self) -> list[T]:
        return [value for _, value in self.seen]
