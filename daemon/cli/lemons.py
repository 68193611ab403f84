"""Lemons: nodes with more troubles or failing jobs than chance would give them, and nodes that users exclude."""

from __future__ import annotations

import click

from daemon.cli.output import json_option, print_json, table
from daemon.cli.rest import duration
from daemon.cli.service import Row, age, cell, service, service_options


@click.command()
@click.option(
    "--since", default="30d", show_default=True, metavar="TIME", callback=duration, help="What the last TIME brought."
)
@click.option("--exclude-line", is_flag=True, help="Print those that stand out as an option for sbatch, no more.")
@json_option
@service_options
@click.pass_context
def lemons(ctx: click.Context, /, since: float, exclude_line: bool, as_json: bool, **where: str | None) -> None:
    """List nodes with more troubles than their peers, nodes whose jobs fail more often, and nodes that users exclude.

    Troubles are drains, refusals, incidents and faults for jobs, beside nodes of the same profile. Jobs are compared
    with those of the same user, partition, size and day elsewhere, so that a failing program blames no node; it takes
    several users. CHANCE is how often luck alone would make any node look so; nothing above 0.05 is shown.

    \b
    Examples:
      nodevet lemons
      sbatch $(nodevet lemons --since 7d --exclude-line) job.sh
    """
    with service(ctx, **where) as client:
        seen = client.get("lemons", dict[str, object], since=f"{since:g}")
    if as_json:
        print_json(seen)
        return
    if exclude_line:
        _exclude_line(seen)
        return
    _print_troubles(seen)
    _print_failing(_rows(seen, "failing"))
    _print_excluded(_rows(seen, "excluded"))
    not_told = seen.get("not_told")
    for said in not_told if isinstance(not_told, list) else []:
        click.echo(cell({"said": said}, "said"))


def _rows(seen: Row, name: str) -> list[Row]:
    items = seen.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _exclude_line(seen: Row) -> None:
    """Only what the numbers show: what users exclude already would feed on itself."""
    from slurm.hostlist import fold

    names = {str(r["node"]) for name in ("items", "failing") for r in _rows(seen, name)}
    if names:
        click.echo(f"--exclude={fold(sorted(names))}")


def _chance(row: Row) -> str:
    chance = row.get("chance")
    return f"{chance:.1g}" if isinstance(chance, int | float) else "-"


def _print_failing(rows: list[Row]) -> None:
    if not rows:
        return
    names = ("node", "jobs", "failed", "expected", "users")
    click.echo("\njobs failed more often than the same users' jobs elsewhere:")
    table(
        ("NODE", "JOBS", "FAILED", "EXPECTED", "USERS", "CHANCE"),
        [(*(cell(r, name) for name in names), _chance(r)) for r in rows],
    )


def _print_excluded(rows: list[Row]) -> None:
    if not rows:
        return
    click.echo("\nexcluded by hand by several users:")
    shown = [(cell(r, "node"), cell(r, "users"), cell(r, "days"), age(r, "last_seen")) for r in rows]
    table(("NODE", "USERS", "DAYS", "AGO"), shown)


def _print_troubles(seen: Row) -> None:
    names = ("node", "starts", "episodes", "per_1000", "peers_per_1000", "drains", "refusals", "incidents", "began")
    shown = [(*(cell(row, name) for name in names), _chance(row)) for row in _rows(seen, "items")]
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
