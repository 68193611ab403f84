"""An advice says what is seen, why it matters and which line to write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["problem", "warning", "ok"]
_WEIGHT: dict[Level, int] = {"problem": 0, "warning": 1, "ok": 2}


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing looked at: what was seen, why it matters, and the line or command that mends it."""

    level: Level
    about: str
    what: str
    why: str = ""
    write: str = ""


def worst(found: Iterable[Advice]) -> list[Advice]:
    """Sort by level, problems first, and leave the order within a level."""
    return sorted(found, key=lambda advice: _WEIGHT[advice.level])
