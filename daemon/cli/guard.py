"""The guard: what automation may still do, opened for a time by an administrator, and nodes it was told to leave."""

from __future__ import annotations

import click

from daemon.cli.drains import show_rows
from daemon.cli.nodelist import named
from daemon.cli.output import json_option, number, print_json, said, table, warn_unknown
from daemon.cli.rest import at_most, duration
from daemon.cli.service import Row, cell, every, service, service_options

DAY = 86400.0


@click.group()
def guard() -> None:
    """See and overrule the limits on automatic drains."""


@guard.command(short_help="What automation may still take out, overrides, accepted risks.")
@json_option
@service_options
@click.pass_context
def show(ctx: click.Context, /, as_json: bool, **where: str | None) -> None:
    """Show how many nodes automation may still take out, overrides, and risks that people accepted.

    \b
    Example:
      nodevet guard show
    """
    with service(ctx, **where) as client:
        seen = client.get("guard", dict[str, object])
        risks = every(client, "risks")
    if as_json:
        print_json({**seen, "risks": risks})
        return
    _print(seen)
    shown = [("risk", f"{cell(r, 'node')} {cell(r, 'code')}", *_word(r)) for r in risks]
    listed = seen.get("overrides")
    overrides = [o for o in listed if isinstance(o, dict)] if isinstance(listed, list) else []
    shown += [("override", cell(o, "code") if o.get("code") else "every code", *_word(o)) for o in overrides]
    if shown:
        table(("WORD", "ABOUT", "BY", "UNTIL (UTC)", "REASON"), shown)


def _word(row: Row) -> tuple[str, str, str]:
    return cell(row, "actor"), _minute(row), cell(row, "reason", 80)


def _room(seen: Row) -> str:
    room = seen.get("headroom")
    return f"room for {number(room, 'node') if isinstance(room, int) else '-'}"


def _minute(row: Row) -> str:
    return cell(row, "until")[:16].replace("T", " ")


def _print(seen: Row) -> None:
    state = "closed: automation drains nothing" if seen.get("closed") else _room(seen)
    click.echo(f"guard of {cell(seen, 'cluster')}: {state}")
    for text, count, limit in (
        ("out by us", "out_by_us", "out_limit"),
        ("drained in the last hour", "last_hour", "hour_limit"),
    ):
        click.echo(f"  {text}: {cell(seen, count)}, at most {cell(seen, limit)}")
    click.echo(f"  in service: {cell(seen, 'in_service')} of {cell(seen, 'nodes')}, floor {cell(seen, 'floor')}")
    click.echo(f"  leases out: {cell(seen, 'promised')}; groups: {cell(seen, 'groups')}")


@guard.command(short_help="Lift ceilings for a time, never a floor.")
@click.option("--code", help="Only for this code.")
@click.option("--for", "seconds", metavar="TIME", callback=duration, help="How long, a day at most.")
@click.option("--reason", help="Why, for everybody to read.")
@click.option("--end", is_flag=True, help="Close the guard again.")
@json_option
@service_options
@click.pass_context
def override(
    ctx: click.Context,
    /,
    code: str | None,
    seconds: float | None,
    reason: str | None,
    end: bool,
    as_json: bool,
    **where: str | None,
) -> None:
    """Lift ceilings, rates and correlation for a time; the floors of capacity stay. For administrators.

    \b
    Examples:
      nodevet guard override --code gpu_lost --for 1h --reason "rack 7 lost cooling, all of it is true"
      nodevet guard override --end
    """
    with service(ctx, **where) as client:
        if end:
            client.delete("guard/override", object)
            said("guard is closed again", as_json)
            return
        if seconds is None or not reason:
            raise click.UsageError("an override needs --for and --reason")
        at_most(DAY, "1d", seconds)
        warn_unknown("code", code)
        made = client.post("guard/override", {"code": code, "seconds": seconds, "reason": reason}, dict[str, object])
    if as_json:
        print_json(made)
        return
    click.echo(f"ceilings are lifted for {cell(made, 'code') if made.get('code') else 'every code'}")
    click.echo(f"until {_minute(made)} UTC")


@guard.command(short_help="Settle what was contested; end accepted risks.")
@click.argument("hostlist")
@click.option("--reason", required=True, help="What was done about it.")
@json_option
@service_options
@click.pass_context
def clear(ctx: click.Context, /, hostlist: str, reason: str, as_json: bool, **where: str | None) -> None:
    """Let automation drain nodes again: what was contested is settled, accepted risks end.

    \b
    Example:
      nodevet guard clear gpu017 --reason "riser replaced, cron job that resumed it is gone"
    """
    with service(ctx, **where) as client:
        answer = client.post("guard/clear", {"nodes": named(hostlist), "reason": reason}, dict[str, object])
    items = answer.get("items")
    show_rows([r for r in items if isinstance(r, dict)] if isinstance(items, list) else [], as_json)
