"""Where each key of a TOML text stands, which the parser does not tell."""

from __future__ import annotations

import re

_PART = r"""(?:[\w-]+|"[^"\n]*"|'[^'\n]*')"""
_PATH = rf"{_PART}(?:\s*\.\s*{_PART})*"
_HEADER = re.compile(rf"\s*\[\[?\s*({_PATH})\s*\]")
_KEY = re.compile(rf"\s*({_PATH})\s*=\s*(.*)")
_NAMES = re.compile(r"""([\w-]+)|"([^"\n]*)"|'([^'\n]*)'""")
_INLINE = re.compile(rf"[{{,]\s*({_PART})\s*=")

Path = tuple[str, ...]


def lines_of(text: str) -> dict[Path, int]:
    """The line of every table and key by its path, the first one counted 1."""
    found: dict[Path, int] = {}
    table: Path = ()
    closing = ""
    for number, line in enumerate(text.splitlines(), 1):
        if closing:
            closing = "" if closing in line else closing
        elif head := _HEADER.match(line):
            table = _names(head[1])
            for length in range(1, len(table) + 1):
                found.setdefault(table[:length], number)
        elif key := _KEY.match(line):
            path = (*table, *_names(key[1]))
            for length in range(len(table) + 1, len(path) + 1):
                found.setdefault(path[:length], number)
            found.update({(*path, *_names(inner)): number for inner in _INLINE.findall(key[2])})
            mark = key[2][:3]
            closing = mark if mark in ('"""', "'''") and key[2].count(mark) % 2 else ""
    return found


def line_of(found: dict[Path, int], path: Path) -> int:
    """The line of the key, or of the nearest table around it; 1 for the whole text."""
    while path:
        if path in found:
            return found[path]
        path = path[:-1]
    return 1


def _names(text: str) -> Path:
    return tuple("".join(parts) for parts in _NAMES.findall(text))
