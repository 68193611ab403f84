"""How much a counter grew within a time, whatever it was before, and whoever cleared it or restarted us meanwhile."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from checks.host import Host

RESTART = 3600.0
"""A remembered value older than this, in seconds, is history: an agent that is upgraded is away for minutes."""
STEPS = 32
"""Into so many parts a window is divided; what is seen between them is not kept."""
MOST = 4096
_32, _64 = 1 << 32, 1 << 64

Step = tuple[float, float, int]
"""Between which two looks something came, the times by our clock, and how much."""


class Grown(msgspec.Struct, frozen=True):
    """By how much, and within how many seconds."""

    count: int
    seconds: float

    def beyond(self, limit: int, within: float) -> bool:
        """Whether that is more than ``limit`` in ``within`` seconds; over a longer time as many times more is borne."""
        return self.count > limit * max(1.0, self.seconds / within)


@dataclass(slots=True)
class Growth:
    """One counter: what it was at the last look and when that was, and what came before within its window."""

    last: int = 0
    at: float | None = None
    came: deque[Step] = field(default_factory=deque)

    def over(self, now: float, value: int, within: float, *, wraps: bool = False) -> Grown:
        """Take the counter's value and give its growth within that time; the first value is a baseline only.

        One that went back was cleared, by a person after a repair or by a reload of the driver: what was before belongs
        to before, and all that stands in it has come since, so it counts from zero. Taking that first value as a new
        baseline would lose what came between clearing and looking. Where a counter ``wraps`` (32 or 64 bits) and stood
        near its end, it was not cleared but began anew, and what was before still counts.
        """
        if self.at is not None:
            more = value - self.last
            if more < 0:
                width = _32 if self.last < _32 else _64
                if wraps and self.last >= width - width // 4 and value < width // 4:
                    more += width
                else:
                    more = value
                    self.came.clear()
            if more:
                self._add(self.at, now, more, within / STEPS)
        self.last, self.at = value, now
        while self.came and now - self.came[0][1] >= within:
            self.came.popleft()
        return Grown(sum(step[2] for step in self.came), now - self.came[0][0] if self.came else 0.0)

    def _add(self, begun: float, now: float, more: int, step: float) -> None:
        """One more step, or a longer last one where that is still short: a counter that never rests has few."""
        if self.came and now - self.came[-1][0] < step:
            begun, _, before = self.came.pop()
            more += before
        self.came.append((begun, now, more))


class _Kept(msgspec.Struct, array_like=True):
    """What travels of one counter."""

    name: str
    last: int
    at: float
    came: list[Step]


class _Book(msgspec.Struct):
    """What travels of all counters of one check."""

    boot: str
    series: list[_Kept]


@dataclass(slots=True)
class Counters:
    """All counters of one check in this boot, remembered over a restart of the agent and forgotten at a new boot."""

    boot: str = ""
    series: dict[str, Growth] = field(default_factory=dict)

    def of(self, name: str) -> Growth:
        """The counter of that name, a new one when it was never seen."""
        return self.series.setdefault(name, Growth())

    def only(self, names: Iterable[str]) -> None:
        """Forget all others: a device that went away and comes back begins with new counters."""
        for gone in self.series.keys() - set(names):
            del self.series[gone]

    def plain(self) -> object:
        """What ``recalled`` takes."""
        kept = [_Kept(n, one.last, one.at, list(one.came)) for n, one in self.series.items() if one.at is not None]
        return msgspec.to_builtins(_Book(self.boot, kept[:MOST]))


def counters(host: Host, name: str, oldest: float = RESTART) -> Counters:
    """The counters that check ``name`` watches, of this boot; what is remembered is at most ``oldest`` seconds old."""
    boot = host.boot_id()
    found = host.kept(f"counters {name}", lambda: recalled(host.memory.get("counters"), boot, host.clock(), oldest))
    if boot != found.boot:
        found.boot = boot
        found.series.clear()
    return found


def recalled(plain: object, boot: str, now: float, oldest: float = RESTART) -> Counters:
    """What an earlier agent of this boot remembered; what is too old, of the future or no such thing is left out."""
    try:
        book = msgspec.convert(plain, _Book)
    except msgspec.ValidationError:
        return Counters(boot)
    if not boot or book.boot != boot:
        return Counters(boot)
    fresh = {}
    for one in book.series[:MOST]:
        if 0 <= now - one.at <= oldest:
            fresh[one.name] = Growth(one.last, one.at, deque(one.came[-2 * STEPS :]))
    return Counters(boot, fresh)
