"""Remedies: reset a GPU, reboot or run a site executable on a drained node of ours, and what became of it."""

from __future__ import annotations

import re

import click

from daemon.cli.output import Refused, json_option, print_json, said, table
from daemon.cli.service import Row, age, cell, service, service_options

ACTION = re.compile(r"reset-gpu|reboot|run:[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@click.command()
@click.argument("node")
@click.option("--action", required=True, metavar="WHAT", help="reset-gpu, reboot, or run:NAME of a site executable.")
@click.option("--gpus", metavar="PCI,...", help="With reset-gpu: PCI ids such as 0000:5d:00.0; else every GPU.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done, or what is in the way.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@service_options
@click.pass_context
def remedy(
    ctx: click.Context,
    /,
    node: str,
    action: str,
    gpus: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **where: str | None,
) -> None:
    """Mend NODE, which must be drained by us to its last job. Switched off unless the site has switched it on.

    The node is verified afterwards. A GPU that somebody holds is busy, which says nothing about the GPU.

    \b
    Examples:
      nodevet remedy gpu017 --action reset-gpu --gpus 0000:5d:00.0 --dry-run
      nodevet remedy gpu017 --action reboot
    """
    chosen = [g.strip().lower() for g in (gpus or "").split(",") if g.strip()]
    if not ACTION.fullmatch(action):
        raise click.UsageError(f"--action {action[:64]!r}, expected reset-gpu, reboot or run:NAME")
    if chosen and action != "reset-gpu":
        raise click.UsageError("--gpus goes with --action reset-gpu")
    asked = {"node": node, "action": action, "gpus": chosen, "dry_run": dry_run}
    if not dry_run and not yes:
        click.confirm(f"{action} {', '.join(chosen)} on {node}?".replace("  ", " "), abort=True, err=True)
    with service(ctx, **where) as client:
        made = client.post("remedies", asked, dict[str, object])
    if as_json:
        print_json(made)
    elif made.get("outcome") != "refused":
        number = f" as remedy {cell(made, 'id')}" if made.get("id") else ""
        click.echo(f"{cell(made, 'node')}: {cell(made, 'action')} {cell(made, 'outcome')}{number}: {cell(made, 'why')}")
    if made.get("outcome") == "refused":
        raise Refused(f"{node}: {action} refused: {cell(made, 'why')}")


@click.command()
@click.argument("node", required=False)
@click.option("--cancel", "number", type=int, metavar="ID", help="Take back one that has not begun.")
@json_option
@service_options
@click.pass_context
def remedies(ctx: click.Context, /, node: str | None, number: int | None, as_json: bool, **where: str | None) -> None:
    """List what was done to drained nodes, what waits and why, and what is switched on.

    \b
    Examples:
      nodevet remedies
      nodevet remedies gpu017 --json
      nodevet remedies --cancel 12
    """
    with service(ctx, **where) as client:
        if number is not None:
            client.delete(f"remedies/{number}", object)
            said(f"remedy {number} is taken back", as_json)
            return
        seen = client.get("remedies", dict[str, object], node=node)
    if as_json:
        print_json(seen)
        return
    done = [
        (
            cell(r, "id"),
            cell(r, "node"),
            cell(r, "action"),
            cell(r, "state"),
            age(r, "changed_at"),
            cell(r, "actor"),
            cell(r, "why", 90),
        )
        for r in _rows(seen, "items")
    ]
    if done:
        table(("ID", "NODE", "ACTION", "STATE", "SINCE", "BY", "WHY"), done)
    else:
        click.echo("nothing was done to a node")
    waiting = [(cell(r, "node"), cell(r, "action"), cell(r, "why", 110)) for r in _rows(seen, "waiting")]
    if waiting:
        table(("WAITS", "ACTION", "WHY NOT"), waiting)
    modes = ", ".join(f"{cell(r, 'action')} {cell(r, 'mode')}" for r in _rows(seen, "modes"))
    click.echo(f"switched: {modes}")


def _rows(seen: Row, name: str) -> list[Row]:
    items = seen.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []
