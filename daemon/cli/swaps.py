"""Which part was replaced by which, where and when, after which drain, and whether the node was verified since."""

from __future__ import annotations

import click

from daemon.cli.output import json_option, print_json, table
from daemon.cli.rest import duration
from daemon.cli.service import Row, cell, every, service, service_options


@click.command()
@click.argument("hostlist", required=False)
@click.option("--since", metavar="TIME", callback=duration, help="How far back, such as 24h or 31d; 30d if not given.")
@json_option
@service_options
@click.pass_context
def swaps(ctx: click.Context, /, hostlist: str | None, since: float | None, as_json: bool, **where: str | None) -> None:
    """List replaced and moved parts: GPUs by serial number or UUID, adapters by GUID, cards by address, boards.

    \b
    Examples:
      nodevet swaps
      nodevet swaps gpu[001-032] --since 7d --json
    """
    asked = {"nodes": hostlist, "since": None if since is None else f"{since:g}"}
    with service(ctx, **where) as client:
        rows = every(client, "swaps", asked=asked)
    if as_json:
        print_json({"items": rows})
        return
    table(("NODE", "AT (UTC)", "PART", "OLD -> NEW", "DRAINED FOR", "VERIFIED", "CAME FROM"), [_told(r) for r in rows])
    if not rows:
        click.echo("no part was swapped")


def _told(row: Row) -> tuple[str, ...]:
    new, old = row.get("new"), row.get("old")
    assert isinstance(new, dict)
    parts = f"{_number(old) if isinstance(old, dict) else 'nothing'} -> {_number(new)}"
    return (
        cell(row, "node"),
        cell(row, "at")[:16].replace("T", " "),
        f"{cell(new, 'kind')} {cell(new, 'slot')}",
        parts,
        cell(row, "drain"),
        cell(row, "verified"),
        cell(row, "came_from"),
    )


def _number(part: Row) -> str:
    return cell(part, "serial") if part.get("serial") else cell(part, "uuid")
