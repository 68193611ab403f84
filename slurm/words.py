"""A node's state is one base word and a set of flags, however a Slurm release writes it.

Releases from 20.11 to 26.05 write ``IDLE+DRAIN``, ``DOWN*+DRAIN``, ``REBOOT+DRAIN``, ``MIXED@``, ``drng*``,
``"idle"`` with ``["DRAIN"]`` beside it, or ``["IDLE", "DRAIN"]``. A word we do not know makes the base ``UNKNOWN``
and `known` false; nobody may act on such a node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

BASES = frozenset({"IDLE", "ALLOCATED", "MIXED", "DOWN", "FUTURE", "ERROR", "UNKNOWN"})
MAX_FLAGS = 32
MAX_STATE_CHARS = 512

# The characters that `scontrol` (until 20.11) and `sinfo` append to a state.
SUFFIXES = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWER_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINT",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}

_ALIASES = {
    "MAINTENANCE": "MAINT",
    "NO_RESPOND": "NOT_RESPONDING",
    "REBOOT": "REBOOT_REQUESTED",
    "POWER_UP": "POWERING_UP",
    "POWERED_UP": "POWER_UP_DONE",
    "POWER": "POWERED_DOWN",
    "POWER_SAVE": "POWERED_DOWN",
    "ALLOC": "ALLOCATED",
    "MIX": "MIXED",
}

# Whole words that stand for a base and flags: 20.11 writes REBOOT, MAINT and RESERVED in place of the base, and
# `sinfo` has words of its own. Where such a word hides the base, it is the least that the word allows.
_WHOLE: dict[str, tuple[str, tuple[str, ...]]] = {
    "REBOOT": ("UNKNOWN", ("REBOOT_REQUESTED",)),
    "BOOT": ("UNKNOWN", ("REBOOT_REQUESTED",)),
    "MAINT": ("IDLE", ("MAINT",)),
    "MAINTENANCE": ("IDLE", ("MAINT",)),
    "RESERVED": ("IDLE", ("RESERVED",)),
    "RESV": ("IDLE", ("RESERVED",)),
    "COMP": ("IDLE", ("COMPLETING",)),
    "COMPLETING": ("IDLE", ("COMPLETING",)),
    "DRAINED": ("IDLE", ("DRAIN",)),
    "DRNG": ("MIXED", ("DRAIN",)),
    "DRAINING": ("MIXED", ("DRAIN",)),
    "FAIL": ("IDLE", ("FAIL",)),
    "FAILG": ("MIXED", ("FAIL",)),
    "FAILING": ("MIXED", ("FAIL",)),
    "INVAL": ("UNKNOWN", ("INVALID_REG",)),
    "PLND": ("IDLE", ("PLANNED",)),
    "PLANNED": ("IDLE", ("PLANNED",)),
    "POW_DN": ("IDLE", ("POWERING_DOWN",)),
    "POWERING_DOWN": ("IDLE", ("POWERING_DOWN",)),
    "POWERED_DOWN": ("IDLE", ("POWERED_DOWN",)),
    "POW_UP": ("IDLE", ("POWERING_UP",)),
    "POWERING_UP": ("IDLE", ("POWERING_UP",)),
    "POWER_DOWN": ("IDLE", ("POWER_DOWN",)),
    "POWER_UP": ("IDLE", ("POWER_UP",)),
    "REBOOT_ISSUED": ("UNKNOWN", ("REBOOT_ISSUED",)),
    "REBOOT_REQUESTED": ("UNKNOWN", ("REBOOT_REQUESTED",)),
    "BLOCKED": ("IDLE", ("BLOCKED",)),
    "FUTR": ("FUTURE", ()),
    "ERR": ("ERROR", ()),
    "UNK": ("UNKNOWN", ()),
    "NO_RESPOND": ("UNKNOWN", ("NOT_RESPONDING",)),
}
# `drain` alone is what sinfo calls a drained node; beside other words it is the flag and the base is not told.
_ALONE: dict[str, tuple[str, tuple[str, ...]]] = {"DRAIN": ("IDLE", ("DRAIN",))}

_FLAG = re.compile(r"[A-Z][A-Z0-9_]{0,39}")


@dataclass(frozen=True, slots=True)
class StateWords:
    """The base and the flags of a state; `known` is false where a word in the base's place was not understood."""

    base: str
    flags: frozenset[str]
    known: bool = True


def state_words(words: Iterable[object]) -> StateWords:
    """Read a state from its words, base first: ``["IDLE", "DRAIN"]``."""
    tokens = [_token(word) for word in _bounded(words)]
    tokens = [(word, marks) for word, marks in tokens if word]
    if not tokens:
        return StateWords("UNKNOWN", frozenset(), known=False)
    (first, marks), rest = tokens[0], tokens[1:]
    base, own, known = _base(first, alone=not rest)
    flags = {*own, *marks}
    for word, more in rest:
        flags.update(more)
        if _FLAG.fullmatch(word):
            flags.add(_ALIASES.get(word, word))
    return StateWords(base, frozenset(sorted(flags)[:MAX_FLAGS]), known)


def state_text(text: str) -> StateWords:
    """Read a state as text: ``IDLE+DRAIN``, ``DOWN*``, ``drng``."""
    return state_words(text[:MAX_STATE_CHARS].split("+"))


def _bounded(words: Iterable[object]) -> list[object]:
    return [word for word, _ in zip(words, range(MAX_FLAGS), strict=False)]


def _token(word: object) -> tuple[str, tuple[str, ...]]:
    if not isinstance(word, str):
        return "", ()
    bare = word.strip().upper()
    marks: list[str] = []
    while bare and bare[-1] in SUFFIXES:
        marks.append(SUFFIXES[bare[-1]])
        bare = bare[:-1]
    return bare, tuple(marks)


def _base(word: str, *, alone: bool) -> tuple[str, tuple[str, ...], bool]:
    plain = _ALIASES.get(word, word)
    if plain in BASES:
        return plain, (), True
    if alone and word in _ALONE:
        base, flags = _ALONE[word]
        return base, flags, True
    if word in _WHOLE:
        base, flags = _WHOLE[word]
        return base, flags, True
    if word == "DRAIN":
        return "UNKNOWN", ("DRAIN",), False
    return "UNKNOWN", (), False
