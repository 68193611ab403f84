"""How the command speaks: errors with the agreed exit codes, tables for people, JSON for programs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import click

F = TypeVar("F", bound=Callable[..., object])
REFUSED, UNDECIDED, USAGE, UNREACHABLE, NOT_ALLOWED = 1, 3, 64, 69, 77
SITE = "site_"  # how codes of a site's own executables begin
_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red", "unknown": "magenta", "skipped": "bright_black"}
_COLOURS |= {"healthy": "green", "degraded": "yellow", "faulty": "red"}


class Refused(click.ClickException):
    """Not done: refused, not found or not usable."""

    exit_code = REFUSED


class Misused(click.ClickException):
    """What was asked cannot be understood, as the service says it."""

    exit_code = USAGE


class Undecided(click.ClickException):
    """`nodevet check` could not look: the node is neither good nor bad."""

    exit_code = UNDECIDED


class Unreachable(click.ClickException):
    """Nobody answers there."""

    exit_code = UNREACHABLE


class NotAllowed(click.ClickException):
    """The caller may not do this."""

    exit_code = NOT_ALLOWED


def json_option(function: F) -> F:
    """Add ``--json`` as ``as_json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")(function)


def print_json(document: object) -> None:
    """Print any wire struct or plain data as one indented JSON document."""
    import msgspec

    click.echo(escaped(msgspec.json.format(msgspec.json.encode(document), indent=2).decode()))


def escaped(text: str) -> str:
    """The same, and nothing in it that a terminal would obey; a JSON document goes on to mean what it meant."""
    return _OBEYED.sub(lambda one: f"\\u{ord(one[0]):04x}", text)


def said(text: str, as_json: bool) -> None:
    """One sentence that something is done, as a document where one was asked for."""
    if as_json:
        print_json({"done": text})
    else:
        click.echo(text)


def coloured() -> bool:
    """Whether standard output is a terminal that wants colours."""
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def paint(word: str, width: int = 0) -> str:
    """A status or verdict in its colour on a terminal, padded to ``width``."""
    padded = word.ljust(width)
    return click.style(padded, fg=_COLOURS.get(word)) if coloured() else padded


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, painted: int | None = None) -> None:
    """Print aligned columns; the last one is not padded, column ``painted`` is coloured by its word."""
    from checks.declare import clean

    lines = [[clean(cell, 2000) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in [list(head), *lines]) for i in range(len(head))]
    widths[-1] = 0
    click.echo("  ".join(title.ljust(width) for title, width in zip(head, widths, strict=True)).rstrip())
    for row in lines:
        cells = [
            paint(cell, width) if i == painted else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        click.echo("  ".join(cells).rstrip())


def why(error: Exception) -> str:
    """What an error says, without the number and the path that the system puts around it."""
    return getattr(error, "strerror", None) or str(error)


def number(count: int, thing: str) -> str:
    """``1 node``, ``2 nodes``."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def warn_unknown(kind: str, name: str | None) -> None:
    """Say on standard error that no code or check of this name is known here; a site's own may still be."""
    import daemon.agent.codes
    import daemon.lanes.codes  # noqa: F401 - both declare codes of our own trouble
    from checks import CODES
    from checks.catalog import load

    checks = load()
    known = [*checks] if kind == "check" else [*CODES]
    if name and name not in known and not name.startswith(SITE):
        click.echo(f"warning: no {kind} {name!r} is known here{nearest(name, known)}", err=True)


def nearest(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?`` where a known name is close, else nothing."""
    from checks.judge.nearest import nearest as hint  # kept out of the start of every verb

    return hint(name, known)
