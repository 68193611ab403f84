"""What checks ask to have kept is given back to them with the next question, and written down now and then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

WRITE_EVERY = 60.0
"""Seconds between two writings; what a check kept a minute ago serves an agent's restart as well."""


@dataclass(slots=True)
class Keepsakes:
    """By the name of a check's instance; ``write`` is begun at most once in WRITE_EVERY seconds.

    ``unwritten``: something was kept since.
    """

    time: Callable[[], float]
    write: Callable[[dict[str, dict[str, object]]], None]
    kept: dict[str, dict[str, object]] = field(default_factory=dict)
    written: float = float("-inf")
    unwritten: bool = False

    def of(self, name: str) -> dict[str, object]:
        """What one instance asked to have kept."""
        return self.kept.get(name, {})

    def take(self, name: str, keep: dict[str, object]) -> None:
        """Take what an answer asks to have kept, in place of what was; nothing leaves all as it is."""
        if not keep:
            return
        self.kept[name], self.unwritten = keep, True
        if self.time() - self.written >= WRITE_EVERY:
            self.written, self.unwritten = self.time(), False
            self.write(self.kept)
