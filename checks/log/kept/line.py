"""A kept log is lines with times, and a word on how far they are proven to be the kernel's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

Trust = Literal["kernel", "unmarked", "forgeable"]
TRUST: dict[Trust, str] = {
    "kernel": "each line carries its facility",
    "unmarked": "lines carry no facility: what a user wrote to /dev/kmsg stands among them",
    "forgeable": "any user can write lines of this form (logger -t kernel)",
}
TEXT_LIMIT = 2048
LINES_LIMIT = 1_000_000
KERN = 0
OTHERS = 1
# An earlier line with a later time by more than this: the machine was booted in between.
_BACKWARDS = 60.0
_HALF_A_YEAR = 183 * 86400.0
_YEAR = 366 * 86400.0


@dataclass(frozen=True, slots=True)
class Line:
    """One line: seconds since boot or since 1970, one or the other in a whole log; ``boot`` where the form names it."""

    seconds: float
    text: str
    facility: int | None = None
    boot: str = ""


@dataclass(frozen=True, slots=True)
class Captured:
    """A whole log of the last boot in it, oldest first; ``foreign``: lines of others; ``garbled``: of no known form."""

    form: str
    trust: Trust
    lines: tuple[Line, ...] = ()
    foreign: int = 0
    garbled: int = 0

    @property
    def end(self) -> float:
        """The time of the last line."""
        return self.lines[-1].seconds if self.lines else 0.0


def captured(form: str, trust: Trust, lines: Sequence[Line], garbled: int = 0, *, yearless: bool = False) -> Captured:
    """Lines of the kernel's last boot; what others wrote is counted, and is no sign of a boot either.

    ``yearless``: of times that begin anew with each year, one that lies far before the last is of the next year.
    """
    own = [line for line in lines if line.facility in (None, KERN)]
    if yearless:
        own = _over_the_years(own)
    start, last = 0, None
    for number, line in enumerate(own):
        if last is not None and (line.boot != last.boot or line.seconds < last.seconds - _BACKWARDS):
            start = number
        last = line
    return Captured(form, trust, tuple(own[start:]), len(lines) - len(own), garbled)


def _over_the_years(lines: list[Line]) -> list[Line]:
    added, last, found = 0.0, 0.0, []
    for line in lines:
        if line.seconds + added < last - _HALF_A_YEAR:
            added += _YEAR
        last = line.seconds + added
        found.append(replace(line, seconds=last))
    return found
