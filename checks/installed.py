"""What is installed beside us, looked up without importlib.metadata where it finds nothing.

That module brings mail, archive and table parsers along, a MiB in the memory of a node's agent.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

NAME = "nodevet"
UNKNOWN = "unversioned"


def entry_points(group: str) -> list[tuple[str, Callable[[], object]]]:
    """Each entry point of a group as the module it names and how to load it."""
    if not any(group in text for text in _declarations()):
        return []
    from importlib import metadata

    return [(point.value, point.load) for point in metadata.entry_points(group=group)]


def version() -> str:
    """Our own installed version, ``unversioned`` from a bare checkout."""
    for folder in _folders():
        for path in folder.glob(f"{NAME}-*.dist-info"):
            return path.name.removeprefix(f"{NAME}-").removesuffix(".dist-info")
    return UNKNOWN


def _declarations() -> Iterator[str]:
    for folder in _folders():
        for path in folder.glob("*-info/entry_points.txt"):
            try:
                yield path.read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue


def _folders() -> Iterator[Path]:
    return (Path(entry or ".") for entry in sys.path if Path(entry or ".").is_dir())
