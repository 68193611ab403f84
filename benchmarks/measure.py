"""A command's wall and CPU time come from the kernel's own account of that one process, without a shell between."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NOWHERE = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (0, 1, 2)]


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of a command; milliseconds."""

    wall: float
    cpu: float
    exit: int


def spawn(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Start a command with nothing on its standard descriptors; gives its process id."""
    return os.posix_spawn(argv[0], list(argv), dict(env), file_actions=NOWHERE)


def once(argv: Sequence[str], env: Mapping[str, str]) -> Sample:
    """Run a command to its end."""
    begun = time.perf_counter()
    _, status, used = os.wait4(spawn(argv, env), 0)
    wall = time.perf_counter() - begun
    return Sample(wall * 1e3, (used.ru_utime + used.ru_stime) * 1e3, os.waitstatus_to_exitcode(status))


@dataclass(frozen=True, slots=True)
class Spread:
    """How some values lie; the p99 of fewer than 100 values is their largest."""

    n: int
    least: float
    median: float
    p99: float
    most: float

    @staticmethod
    def of(values: Sequence[float]) -> Spread:
        """The spread of at least one value."""
        ordered = sorted(values)
        at = min(len(ordered) - 1, int(len(ordered) * 0.99))
        return Spread(len(ordered), ordered[0], statistics.median(ordered), ordered[at], ordered[-1])

    def text(self, unit: str = "ms") -> str:
        """Median, p99 and least in one cell."""
        return f"{self.median:.2f} {unit} (p99 {self.p99:.2f}, min {self.least:.2f})"
