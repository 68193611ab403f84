"""Lemons: nodes with more troubles than their peers, shown only where chance would hardly do that."""

from __future__ import annotations

import click

from daemon.cli.output import json_option, print_json, table
from daemon.cli.rest import duration
from daemon.cli.service import cell, service, service_options


@click.command()
@click.option(
    "--since", default="30d", show_default=True, metavar="TIME", callback=duration, help="What the last TIME brought."
)
@json_option
@service_options
@click.pass_context
def lemons(ctx: click.Context, /, since: float, as_json: bool, **where: str | None) -> None:
    """List nodes with more drains, refusals, incidents and faults for their jobs than nodes of the same profile.

    CHANCE is how often luck alone would make any node of the group look so; nothing above 0.05 is shown.

    \b
    Examples:
      nodevet lemons
      nodevet lemons --since 7d --json
    """
    with service(ctx, **where) as client:
        seen = client.get("lemons", dict[str, object], since=f"{since:g}")
    if as_json:
        print_json(seen)
        return
    items = seen.get("items")
    names = ("node", "starts", "episodes", "per_1000", "peers_per_1000", "drains", "refusals", "incidents", "began")
    shown = []
    for row in items if isinstance(items, list) else []:
        chance = row.get("chance")
        told = f"{chance:.1g}" if isinstance(chance, int | float) else "-"
        shown.append((*(cell(row, name) for name in names), told))
    if not shown:
        click.echo(cell(seen, "why_none"))
        return
    heads = (
        "NODE",
        "JOBS",
        "TROUBLES",
        "PER 1000",
        "PEERS",
        "DRAINS",
        "REFUSALS",
        "INCIDENTS",
        "DURING JOBS",
        "CHANCE",
    )
    table(heads, shown)
