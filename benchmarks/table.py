"""Every measured line stands beside what it is compared with, its target and whether that was met."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table; ``met`` is None where there is no target or nothing could be measured."""

    part: str
    what: str
    measured: str
    beside: str = ""
    ratio: str = ""
    target: str = ""
    met: bool | None = None
    n: int = 0
    simulated: bool = True
    values: dict[str, float] = {}

    @property
    def verdict(self) -> str:
        """met, missed, or nothing where nothing was asked."""
        return {True: "met", False: "MISSED", None: ""}[self.met]


HEAD = ("part", "what", "measured", "beside it", "ratio", "target", "", "N", "")


def render(lines: Sequence[Line]) -> str:
    """The table as text, columns as wide as they have to be."""
    rows = [HEAD, *(_row(line) for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    texts = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([texts[0], "-" * max(len(text) for text in texts), *texts[1:]])


def _row(line: Line) -> tuple[str, ...]:
    mark = "SIM" if line.simulated else ""
    count = str(line.n) if line.n else ""
    return (line.part, line.what, line.measured, line.beside, line.ratio, line.target, line.verdict, count, mark)
