"""Operations on lists of nodes: what was done by whom, and undoing one where nodes still are as it left them."""

from __future__ import annotations

import click

from daemon.cli.drains import agree, items_of, show_rows
from daemon.cli.output import json_option, print_json, table
from daemon.cli.rest import duration
from daemon.cli.service import Row, age, cell, every, service, service_options


@click.command()
@click.argument("number", metavar="[ID]", required=False, type=click.IntRange(min=1))
@click.option("--dry-run", is_flag=True, help="Only show what would happen.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@service_options
@click.pass_context
def undo(
    ctx: click.Context, /, number: int | None, dry_run: bool, yes: bool, as_json: bool, **where: str | None
) -> None:
    """Undo a drain or a resume of a list of nodes: the one with this ID, else your last that was not undone.

    Only nodes that still are exactly as it left them are touched; of each other one it is said why not. A node that
    was drained for a fault before, or is faulty now, is left to: nodevet resume.

    \b
    Examples:
      nodevet undo --dry-run
      nodevet undo 17
    """
    with service(ctx, **where) as client:
        asked = {"operation": number, "dry_run": True}
        answer = client.post("operations/undo", asked, dict[str, object])
        if not dry_run:
            found = answer.get("operation")
            agree(items_of(answer), f"undo of operation {found} on", yes)
            answer = client.post("operations/undo", {"operation": found}, dict[str, object])
    show_rows(items_of(answer), as_json, answer.get("operation") if not dry_run else None)


@click.command()
@click.argument("number", metavar="[ID]", required=False, type=click.IntRange(min=1))
@click.option("--since", metavar="TIME", callback=duration, help="Only the last TIME, such as 30m, 24h or 7d.")
@click.option("--actor", help="Only this person's.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 10_000), help="How many at most.")
@json_option
@service_options
@click.pass_context
def operations(
    ctx: click.Context,
    /,
    number: int | None,
    since: float | None,
    actor: str | None,
    limit: int,
    as_json: bool,
    **where: str | None,
) -> None:
    """List drains, resumes and undos of lists of nodes, or show one node by node with what stood there before.

    \b
    Examples:
      nodevet operations --since 24h
      nodevet operations 17
    """
    with service(ctx, **where) as client:
        if number is not None:
            one = client.get(f"operations/{number}", dict[str, object])
            _show_one(one, as_json)
            return
        back = None if since is None else f"{since:g}"
        rows = every(client, "operations", most=limit, limit=min(limit, 500), since=back, actor=actor)
    if as_json:
        print_json({"items": rows})
        return
    heads = ("ID", "AGO", "BY", "WHAT", "NODES", "OUTCOME", "REASON", "UNDONE BY")
    table(heads, [_line(r) for r in rows])
    if not rows:
        click.echo("no operation")


def _line(row: Row) -> tuple[str, ...]:
    counts = row.get("counts")
    told = ", ".join(f"{n} {what}" for what, n in sorted(counts.items())) if isinstance(counts, dict) else "-"
    verb = cell(row, "verb") + (f" of {cell(row, 'undoes')}" if row.get("undoes") else "")
    who, nodes = cell(row, "actor", 32), cell(row, "nodes", 40)
    return cell(row, "id"), age(row, "at"), who, verb, nodes, told, cell(row, "reason", 60), cell(row, "undone_by")


def _show_one(row: Row, as_json: bool) -> None:
    if as_json:
        print_json(row)
        return
    line = _line(row)
    click.echo(f"operation {line[0]}, {line[1]} ago by {line[2]}: {line[3]} {line[4]}: {line[6]}")
    if row.get("undone_by"):
        click.echo(f"undone by operation {cell(row, 'undone_by')}")
    names = ("node", "outcome", "why", "before")
    table(("NODE", "OUTCOME", "WHY", "BEFORE"), [tuple(cell(r, n, 100) for n in names) for r in items_of(row)])
