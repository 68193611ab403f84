"""The way back: repairs under a ticket, nodes said to be ready again, and who is watched closer."""

from __future__ import annotations

import time

import click

from daemon.central import Central
from daemon.cli.nodelist import named
from daemon.cli.output import Refused, json_option, print_json, table
from daemon.cli.rest import duration, items_of, show
from daemon.cli.service import Row, age, cell, every, service, service_options

POLL_SECONDS = 1.0
OPEN = frozenset({"waiting", "asked"})
DEFAULT_TIMEOUT = 900.0


@click.command()
@click.argument("hostlist", required=False)
@click.option("--ticket", help="Number of the ticket under which it is repaired.")
@click.option("--reason", help="What is done, for everybody to read.")
@json_option
@service_options
@click.pass_context
def repair(
    ctx: click.Context,
    /,
    hostlist: str | None,
    ticket: str | None,
    reason: str | None,
    as_json: bool,
    **where: str | None,
) -> None:
    """Keep hands off nodes that are out of service while they are repaired; `nodevet ready` ends it, no time does.

    Without HOSTLIST, list the repairs in force.

    \b
    Examples:
      nodevet repair gpu017 --ticket 4711 --reason "GPU 3 is being replaced"
      nodevet repair
    """
    with service(ctx, **where) as client:
        if hostlist is None:
            rows = every(client, "repairs")
            if as_json:
                print_json({"items": rows})
                return
            told = [(cell(r, "node"), cell(r, "ticket"), age(r, "created_at"), cell(r, "actor"), cell(r, "reason", 90))
                    for r in rows]  # fmt: skip
            table(("NODE", "TICKET", "SINCE", "BY", "REASON"), told)
            if not rows:
                click.echo("no node is in repair")
            return
        if not ticket or not reason:
            raise click.UsageError("a repair needs --ticket and --reason")
        asked = {"nodes": named(hostlist), "ticket": ticket, "reason": reason}
        rows = items_of(client.post("repairs", asked, dict[str, object]))
    show(rows, as_json)
    if any(r.get("outcome") == "refused" for r in rows):
        raise Refused("not every node is in repair")


@click.command()
@click.argument("hostlist")
@click.option("--wait", "waits", is_flag=True, help="Wait until every node has been looked at; 1 unless all are clean.")
@click.option(
    "--timeout", metavar="TIME", callback=duration, help="With --wait: how long, such as 90 or 10m; 15m if not given."
)
@json_option
@service_options
@click.pass_context
def ready(
    ctx: click.Context, /, hostlist: str, waits: bool, timeout: float | None, as_json: bool, **where: str | None
) -> None:
    """End the pause or repair of nodes, or a maintenance, and have every one of them looked at as a whole.

    So many nodes are looked at at once as the server's looks_at_once says; --wait shows how far it is.

    \b
    Examples:
      nodevet ready gpu[001-032]
      nodevet ready gpu[001-032] --wait --timeout 10m
    """
    if timeout is not None and not waits:
        raise click.UsageError("--timeout goes with --wait")
    with service(ctx, **where) as client:
        rows = items_of(client.post("pauses/end", {"nodes": named(hostlist)}, dict[str, object]))
        if not waits:
            show(rows, as_json)
            return
        looks = _wait(client, hostlist, {str(r.get("node")) for r in rows}, timeout or DEFAULT_TIMEOUT, quiet=as_json)
    if as_json:
        print_json({"items": looks})
    else:
        told = [(cell(r, "node"), cell(r, "state"), cell(r, "detail", 110)) for r in looks]
        table(("NODE", "LOOK", "WHY"), told)
    if bad := [r for r in looks if r.get("state") != "clean"]:
        raise Refused(f"{len(bad)} of {len(looks)} nodes are not clean")


def _wait(client: Central, hostlist: str, names: set[str], limit: float, *, quiet: bool) -> list[Row]:
    """The looks of these nodes once all are answered or the time is over; a repaired drain is verified elsewhere."""
    until, said = time.monotonic() + limit, -1
    while True:
        rows = [r for r in every(client, "looks", nodes=hostlist) if r.get("node") in names]
        done = sum(r.get("state") not in OPEN for r in rows)
        if done != said and not quiet:
            click.echo(f"{done} of {len(rows)} nodes looked at", err=True)
            said = done
        if done == len(rows) or time.monotonic() >= until:
            return rows
        time.sleep(POLL_SECONDS)


@click.command()
@json_option
@service_options
@click.pass_context
def probation(ctx: click.Context, /, as_json: bool, **where: str | None) -> None:
    """List nodes that are watched closer since they came back, and nodes held since they flap, with their strikes.

    \b
    Example:
      nodevet probation
    """
    with service(ctx, **where) as client:
        rows = every(client, "probation")
    if as_json:
        print_json({"items": rows})
        return
    told = [(cell(r, "node"), cell(r, "state"), _until(r), strikes(r), cell(r, "flapping", 90)) for r in rows]
    table(("NODE", "STATE", "WATCHED UNTIL", "STRIKES", "HELD BECAUSE"), told)
    if not rows:
        click.echo("no node is on probation or held for flapping")


def _until(row: Row) -> str:
    return cell(row, "probation_until")[:16].replace("T", " ")


def _figure(row: Row, name: str) -> str:
    value = row.get(name)
    return f"{value:.10g}" if isinstance(value, int | float) else cell(row, name)


def strikes(row: Row) -> str:
    """The node's strikes beside their limits, ``-`` where it has none."""
    found = row.get("strikes")
    told = [s for s in found if isinstance(s, dict)] if isinstance(found, list) else []
    return "; ".join(f"{cell(s, 'what')} {_figure(s, 'score')} of {_figure(s, 'limit')}" for s in told) or "-"
