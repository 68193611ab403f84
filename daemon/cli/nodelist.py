"""Which nodes a verb is about: a host list, ``@partition``, ``@feature=NAME``, a file of them, or standard input."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from daemon.cli.output import why

LIMIT = 1_000_000


def node_list(given: str | None, file: str | None) -> str:
    """The one text that the service takes; in files and on standard input a line may end in a ``# comment``."""
    if (given is None) == (file is None):
        raise click.UsageError("give the nodes as HOSTLIST (- reads standard input) or with --from-file, not both")
    if file is not None:
        try:
            with Path(file).open(encoding="utf-8") as lines:
                return _joined(lines.read(LIMIT + 1), file)
        except (OSError, UnicodeDecodeError) as error:
            raise click.UsageError(f"{file}: {why(error)}") from error
    assert given is not None
    return _joined(sys.stdin.read(LIMIT + 1), "standard input") if given == "-" else named(given)


def named(hostlist: str) -> str:
    """The host list, which must name something."""
    if not hostlist.strip():
        raise click.UsageError("HOSTLIST is empty: name at least one node")
    return hostlist


def _joined(text: str, source: str) -> str:
    if len(text) > LIMIT:
        raise click.UsageError(f"{source}: more than {LIMIT} characters")
    words = [word.strip(",") for line in text.splitlines() for word in line.partition("#")[0].split()]
    joined = ",".join(word for word in words if word)
    if not joined:
        raise click.UsageError(f"{source} names no node")
    return joined
