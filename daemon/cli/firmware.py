"""Which driver, kernel and firmware the nodes of each profile run, and which nodes differ from most of them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from daemon.cli.output import json_option, number, print_json, table
from daemon.cli.service import Row, cell, every, service, service_options

KINDS = click.Choice(["driver", "kernel", "agent", "gpu", "hca", "nic", "board"])
SHOWN = 200


@click.command()
@click.option("--profile", help="Only nodes of this profile.")
@click.option("--kind", type=KINDS, help="Only this kind.")
@click.option("--cluster", help="Only this cluster.")
@click.option("--all", "everything", is_flag=True, help="Show what agrees, too.")
@json_option
@service_options
@click.pass_context
def firmware(
    ctx: click.Context,
    /,
    profile: str | None,
    kind: str | None,
    cluster: str | None,
    everything: bool,
    as_json: bool,
    **where: str | None,
) -> None:
    """Compare driver, kernel, agent, VBIOS, adapter firmware and BIOS of nodes of one profile: a note, no fault.

    \b
    Examples:
      nodevet firmware
      nodevet firmware --kind gpu --all
      nodevet firmware --json | jq -r '.items[].odd[].node' | sort -u
    """
    with service(ctx, **where) as client:
        rows = every(client, "firmware", asked={"profile": profile, "cluster": cluster})
    rows = [r for r in rows if kind is None or r.get("kind") == kind]
    if as_json:
        print_json({"items": rows})
        return
    lines = [line for row in rows for line in _lines(row, everything)]
    if lines:
        table(("PROFILE", "KIND", "MODEL", "NODE", "RUNS", "MOST RUN"), lines[:SHOWN])
    if len(lines) > SHOWN:
        click.echo(f"and {len(lines) - SHOWN} more lines; see --json")
    odd = {str(o.get("node")) for row in rows for o in _odd(row)}
    verb = "differs" if len(odd) == 1 else "differ"
    click.echo(f"{number(len(odd), 'node')} {verb} from most of the profile" if odd else "no node differs from most")


def _lines(row: Row, everything: bool) -> Iterator[tuple[str, ...]]:
    """One line for each node or part that differs; where no version is most nodes' own, one line for each version."""
    about = (cell(row, "profile"), cell(row, "kind"), cell(row, "model", 40))
    for odd in _odd(row):
        slot = f" {cell(odd, 'slot')}" if odd.get("slot") else ""
        yield (*about, f"{cell(odd, 'node')}{slot}", cell(odd, "version"), cell(row, "usual"))
    versions = row.get("versions")
    split = row.get("usual") is None and isinstance(versions, dict) and len(versions) > 1
    if isinstance(versions, dict) and (split or (everything and not _odd(row))):
        for version, nodes in versions.items():
            yield (*about, number(int(nodes), "node"), str(version), cell(row, "usual"))


def _odd(row: Row) -> list[Row]:
    found = row.get("odd")
    return [o for o in found if isinstance(o, dict)] if isinstance(found, list) else []
