"""What the controller says aloud is said once, refreshed now and then, and ends with its cause."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from api.store.views import IncidentView

REFRESH_SECONDS = 60.0
KINDS = ("controller", "correlated")
Key = tuple[str, str]
Open = Callable[[str, str, str, str], None]
Close = Callable[[str, str, str], None]


@dataclass(frozen=True, slots=True)
class _Said:
    text: str
    at: float
    kind: str


class Notices:
    """Open problems of ours by (node, code); every method writes to the database, so call it in a thread."""

    def __init__(self, open_: Open, close: Close) -> None:
        self._open = open_
        self._close = close
        self._said: dict[Key, _Said] = {}
        self._counting = threading.Lock()

    def remember(self, incidents: Collection[IncidentView]) -> None:
        """Take over what an earlier process had said and not ended."""
        for found in incidents:
            if found.kind in KINDS:
                self._said.setdefault((found.node, found.code), _Said(found.message, float("-inf"), found.kind))

    def said(self, node: str, code: str) -> bool:
        """Whether this problem is open."""
        return (node, code) in self._said

    def text(self, node: str, code: str) -> str:
        """What is said of this problem, empty when it is not open."""
        said = self._said.get((node, code))
        return said.text if said is not None else ""

    def say_one_of(self, node: str, code: str, text: str, most: int) -> bool:
        """Open one node's problem unless ``most`` other nodes have the same one open already; whether it is open."""
        with self._counting:
            there = (node, code) in self._said or sum(c == code and n != "" for n, c in [*self._said]) < most
            if there:
                self.say(node, code, text)
        return there

    def say(self, node: str, code: str, text: str, *, kind: str = "controller") -> None:
        """Open a problem, or refresh it where it has not been said lately."""
        said = self._said.get((node, code))
        if said is not None and time.monotonic() - said.at < REFRESH_SECONDS:
            return
        self._open(node, code, text, kind)
        self._said[node, code] = _Said(text, time.monotonic(), kind)

    def over(self, node: str, code: str, why: str) -> None:
        """Close a problem, also one that nobody here remembers."""
        self._close(node, code, why)
        self._said.pop((node, code), None)

    def keep(self, of: Callable[[Key, str], bool], holding: Collection[Key], why: str, *, settle: float = 0.0) -> None:
        """Close all problems for which ``of`` is true, by key and kind, and which do not hold any more.

        What was said within the last ``settle`` seconds stays: its cause may be on its way to us yet.
        """
        before = time.monotonic() - settle
        for key in [k for k, s in self._said.items() if of(k, s.kind) and k not in holding and s.at <= before]:
            self.over(*key, why)
