"""Hands off: pause nodes and silence findings, each with an end that is stated."""

from __future__ import annotations

import re

import click

from daemon.cli.drains import CONFIRM_ABOVE
from daemon.cli.nodelist import named
from daemon.cli.output import Refused, json_option, print_json, table, warn_unknown
from daemon.cli.service import Row, cell, every, service, service_options

_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_TIME = re.compile(r"(\d{1,7}(?:\.\d{1,3})?)\s*(s|min|m|h|d)?")
LONGEST = 31 * 86400.0


def duration(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """``90``, ``30m``, ``2h`` or ``1d`` in seconds."""
    if value is None:
        return None
    match = _TIME.fullmatch(value.strip())
    seconds = float(match[1]) * _UNITS[match[2] or "s"] if match else 0.0
    if not 0 < seconds <= LONGEST:
        raise click.BadParameter(f"{value} is not a time such as 90, 30m, 2h or 1d, at most 31d")
    return seconds


def at_most(limit: float, words: str, value: float | None, option: str = "--for") -> None:
    """Refuse a time that the service would refuse, in the words of the help."""
    if value is not None and value > limit:
        raise click.BadParameter(f"{value:g} s, expected {words} at most", param_hint=option)


@click.command()
@click.argument("hostlist", required=False)
@click.option(
    "--for",
    "seconds",
    metavar="TIME",
    callback=duration,
    help="How long, such as 30m, 2h or 1d; it then ends by itself.",
)
@click.option("--reason", help="Why, for everybody to read.")
@json_option
@service_options
@click.pass_context
def pause(
    ctx: click.Context,
    /,
    hostlist: str | None,
    seconds: float | None,
    reason: str | None,
    as_json: bool,
    **where: str | None,
) -> None:
    """Keep hands off nodes for a time: their agents let go of GPUs and mounts, hooks admit every job.

    Nothing is asked, refused, drained or resumed there. Without HOSTLIST, list the pauses in force.

    \b
    Examples:
      nodevet pause gpu[001-032] --for 2h --reason "driver update"
      nodevet pause
    """
    with service(ctx, **where) as client:
        if hostlist is None:
            _show_pauses(every(client, "pauses"), as_json)
            return
        if seconds is None or not reason:
            raise click.UsageError("a pause needs --for and --reason")
        asked = {"nodes": named(hostlist), "seconds": seconds, "reason": reason}
        rows = items_of(client.post("pauses", asked, dict[str, object]))
    show(rows, as_json)


@click.command()
@click.option("--check", help="Only this check's findings.")
@click.option("--nodes", metavar="HOSTLIST", help="Only on these nodes.")
@click.option("--partition", help="Only on nodes of this partition.")
@click.option(
    "--for",
    "seconds",
    metavar="TIME",
    callback=duration,
    help="How long, such as 30m, 2h or 1d; it then ends by itself.",
)
@click.option("--reason", help="Why, for everybody to read.")
@click.option("--end", "number", type=click.IntRange(min=0), help="End the silence of this number.")
@json_option
@service_options
@click.pass_context
def silence(
    ctx: click.Context,
    /,
    check: str | None,
    nodes: str | None,
    partition: str | None,
    seconds: float | None,
    reason: str | None,
    number: int | None,
    as_json: bool,
    **where: str | None,
) -> None:
    """Have findings lead to nothing for a time: shown as always, but no incident, refusal or drain.

    Give a check, nodes or a partition, or several of them to narrow it down. Without any, list what is silenced.

    \b
    Examples:
      nodevet silence --check ib_port --partition old --for 1d --reason "switch is being replaced"
      nodevet silence
      nodevet silence --end 7
    """
    wanted = {"check": check, "nodes": nodes, "partition": partition}
    with service(ctx, **where) as client:
        if number is not None:
            client.delete(f"silences/{number}", object)
            rows: list[Row] = every(client, "silences")
        elif not any(wanted.values()):
            if seconds is not None or reason:
                raise click.UsageError("a silence needs --check, --nodes or --partition")
            rows = every(client, "silences")
        elif seconds is None or not reason:
            raise click.UsageError("a silence needs --for and --reason")
        else:
            warn_unknown("check", check)
            asked = {k: v for k, v in wanted.items() if v} | {"seconds": seconds, "reason": reason}
            rows = items_of(client.post("silences", asked, dict[str, object]))
    if as_json:
        print_json({"items": rows})
        return
    scope = [tuple(cell(r, k) if r.get(k) else "all" for k in ("check", "node", "partition")) for r in rows]
    rest = [(_minute(r), cell(r, "actor"), cell(r, "reason", 80)) for r in rows]
    shown = [(cell(r, "id"), *where_, *until) for r, where_, until in zip(rows, scope, rest, strict=True)]
    table(("ID", "CHECK", "NODE", "PARTITION", "UNTIL", "BY", "REASON"), shown)
    if not rows:
        click.echo("nothing is silenced")


def items_of(answer: Row) -> list[Row]:
    """The rows of an answer."""
    items = answer.get("items")
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _minute(row: Row) -> str:
    return cell(row, "until")[:16].replace("T", " ")


def _end(row: Row) -> str:
    return f"ready; ticket {cell(row, 'ticket')}" if row.get("ticket") else _minute(row)


def _show_pauses(rows: list[Row], as_json: bool) -> None:
    if as_json:
        print_json({"items": rows})
        return
    shown = [(cell(r, "node"), _end(r), cell(r, "actor"), cell(r, "reason", 100)) for r in rows]
    table(("NODE", "UNTIL (UTC)", "BY", "REASON"), shown)
    if not rows:
        click.echo("no node is paused")


def show(rows: list[Row], as_json: bool) -> None:
    """One line a node, or their number where there are many that went well."""
    if as_json:
        print_json({"items": rows})
        return
    if len(rows) > 8 * CONFIRM_ABOVE and len({(r.get("outcome"), r.get("why")) for r in rows}) == 1:
        click.echo(f"{len(rows)} nodes: {cell(rows[0], 'why')}")
        return
    table(("NODE", "OUTCOME", "WHY"), [(cell(r, "node"), cell(r, "outcome"), cell(r, "why", 110)) for r in rows])
    if not rows:
        raise Refused("no node in the list")
