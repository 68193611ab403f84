"""How a verb reaches the central service: address and token from options, environment or the node's configuration."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click

from daemon.central import BadAnswer, Central
from daemon.central import NotAllowed as TokenRefused
from daemon.central import Refused as ServiceRefused
from daemon.central import Unreachable as Silent
from daemon.cli.output import Misused, NotAllowed, Refused, Unreachable

F = TypeVar("F", bound=Callable[..., object])
Row = Mapping[str, object]
DEFAULT_URL = "http://127.0.0.1:7440"
TOKEN_LIMIT = 4096


@dataclass(frozen=True, slots=True)
class Address:
    """Where the service is and how to be let in."""

    url: str
    token: str
    ca_file: str | None


def service_options(function: F) -> F:
    """Add ``--server``, ``--token-file`` and ``--ca-file``."""
    for option in (
        click.option("--ca-file", metavar="FILE", help="Certificates to trust (NODEVET_CENTRAL_CA_FILE)."),
        click.option("--token-file", metavar="FILE", help="File with the token (or NODEVET_TOKEN)."),
        click.option("--server", metavar="URL", help=f"Central service (NODEVET_SERVER), else {DEFAULT_URL}."),
    ):
        function = option(function)
    return function


def address(ctx: click.Context, server: str | None, token_file: str | None, ca_file: str | None) -> Address:
    """Options over environment over the node's configuration; a token is never taken from the command line."""
    from daemon.config import ConfigError, load_config

    try:
        config = load_config(Path(ctx.obj) if ctx.obj else None).central
    except ConfigError as error:
        if server is None and "NODEVET_SERVER" not in os.environ:
            raise Refused(str(error)) from error
        config = None
    url = server or os.environ.get("NODEVET_SERVER") or (config.url if config else "") or DEFAULT_URL
    token = os.environ.get("NODEVET_TOKEN", "")
    source = token_file or ("" if token else (config.token_file if config else ""))
    if source:
        token = _secret(source, asked=token_file is not None)
    return Address(url, token, ca_file or (config.ca_file if config else "") or None)


def _secret(path: str, *, asked: bool) -> str:
    """The token in a file; a configured file that only root can read is no trouble where reading needs no token."""
    try:
        with Path(path).open(encoding="ascii") as file:
            return file.read(TOKEN_LIMIT).strip()
    except (OSError, UnicodeDecodeError) as error:
        if asked:
            why = getattr(error, "strerror", None) or "not a token"
            raise NotAllowed(f"token file {path}: {why}") from error
        return ""


@contextmanager
def service(ctx: click.Context, **options: str | None) -> Iterator[Central]:
    """The client, with its errors turned into the agreed exit codes."""
    where = address(ctx, options.get("server"), options.get("token_file"), options.get("ca_file"))
    try:
        client = Central(where.url, where.token, where.ca_file)
        try:
            yield client
        finally:
            client.close()
    except Silent as error:
        raise Unreachable(f"central service is not reached: {error}") from error
    except TokenRefused as error:
        hint = "" if where.token else "; set NODEVET_TOKEN or --token-file"
        raise NotAllowed(f"central service: {error}{hint}") from error
    except ServiceRefused as error:
        kind = Misused if error.problem.status in (400, 422) else Refused
        raise kind(f"central service: {error}") from error
    except BadAnswer as error:
        raise Refused(f"central service: {error}") from error


def every(
    client: Central,
    path: str,
    *,
    most: int = 20_000,
    asked: Mapping[str, str | int | None] | None = None,
    **query: str | int | bool | None,
) -> list[Row]:
    """All rows of a paged list, at most ``most``; ``asked`` is more of the query."""
    rows: list[Row] = []
    cursor: str | None = None
    while len(rows) < most:
        page = client.get(path, dict[str, object], cursor=cursor, **{**(asked or {}), **query})
        items, cursor = page.get("items"), _cursor(page)
        rows += [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
        if cursor is None:
            break
    return rows[:most]


def _cursor(page: Row) -> str | None:
    following = page.get("next")
    return following if isinstance(following, str) else None


def cell(row: Row, name: str, width: int = 0) -> str:
    """One value as text without control characters, cut to ``width`` where that is given."""
    from checks import clean

    value = row.get(name)
    text = "-" if value is None or value == "" else clean(value, 2000)
    return text if not width or len(text) <= width else text[: width - 1] + "…"


def age(row: Row, name: str) -> str:
    """How long ago a moment was, in the largest unit that fits."""
    from datetime import datetime, timezone

    value = row.get(name)
    if not isinstance(value, str):
        return "-"
    try:
        seconds = (datetime.now(timezone.utc) - datetime.fromisoformat(value.replace("Z", "+00:00"))).total_seconds()
    except ValueError:
        return "?"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def cluster_of(client: Central, node: str, cluster: str | None) -> str:
    """The cluster of a node: as said, or the only one that has a node of this name."""
    if cluster:
        return cluster
    rows = [r for r in every(client, "nodes", nodes=node, limit=500) if r.get("node") == node]
    found = sorted({str(r["cluster"]) for r in rows})
    if len(found) == 1:
        return found[0]
    if not found:
        raise Refused(f"no node {node} has reported")
    raise Refused(f"node {node} is in several clusters ({', '.join(found)}): give --cluster")
