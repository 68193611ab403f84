"""A wrong name is answered with the nearest known one."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` where a known name is close, else nothing."""
    import difflib  # only a mistake needs it

    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
