"""Incidents: problems from first sight to close, acknowledged by whoever looks after them."""

from __future__ import annotations

import click

from daemon.cli.output import json_option, print_json, table
from daemon.cli.service import Row, age, cell, every, service, service_options


@click.command()
@click.option("--all", "everything", is_flag=True, help="Closed ones too.")
@click.option("--ack", "number", type=int, metavar="N", help="Take incident N on.")
@click.option("--note", default="", help="With --ack: what others should know.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1, 10_000), help="How many at most.")
@json_option
@service_options
@click.pass_context
def incidents(
    ctx: click.Context,
    /,
    everything: bool,
    number: int | None,
    note: str,
    limit: int,
    as_json: bool,
    **where: str | None,
) -> None:
    """List open problems, or take one on.

    \b
    Examples:
      nodevet incidents
      nodevet incidents --ack 17 --note "part ordered, ticket 4711"
    """
    if note and number is None:
        raise click.UsageError("--note goes with --ack")
    with service(ctx, **where) as client:
        if number is not None:
            rows = [client.post(f"incidents/{number}/ack", {"note": note}, dict[str, object])]
        else:
            rows = [
                dict(r)
                for r in every(
                    client, "incidents", most=limit, open=None if everything else True, limit=min(limit, 500)
                )
            ]
    if as_json:
        print_json({"items": rows})
        return
    shown = [
        (
            cell(r, "id"),
            cell(r, "node"),
            cell(r, "code"),
            cell(r, "target"),
            age(r, "first_seen"),
            *((_closed(r),) if everything else ()),
            cell(r, "acknowledged_by"),
            cell(r, "message", 100),
        )
        for r in rows
    ]
    closed = ("CLOSED",) if everything else ()
    table(("N", "NODE", "CODE", "TARGET", "SINCE", *closed, "TAKEN BY", "MESSAGE"), shown)
    if not rows:
        click.echo("no incidents" if everything else "no open incidents")


def _closed(row: Row) -> str:
    return f"{age(row, 'closed_at')} ago" if row.get("closed_at") else "open"
