"""Drains: who took which node out and what brings it back; drain and resume with preview and typed consent."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import click

from daemon.cli.nodelist import node_list
from daemon.cli.output import Refused, json_option, number, print_json, table
from daemon.cli.service import Row, age, cell, every, service, service_options

# Above this many nodes a person types the number before anything is written.
CONFIRM_ABOVE = 4
RISK_LIMIT = 7 * 86400.0
NOT_DONE = frozenset({"refused", "failed"})


def _duration(ctx: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    from daemon.cli.rest import duration

    return duration(ctx, parameter, value)


@click.command()
@json_option
@service_options
@click.pass_context
def drains(ctx: click.Context, /, as_json: bool, **where: str | None) -> None:
    """List every drain in force: its owner, since when, why, and what brings the node back.

    \b
    Examples:
      nodevet drains
      nodevet drains --json | jq '.items[] | select(.owner == "ours-automatic")'
    """
    with service(ctx, **where) as client:
        rows, risks = every(client, "drains"), every(client, "risks")
    if as_json:
        print_json({"items": rows, "risks": risks})
        return
    shown = [
        (cell(r, "node"), cell(r, "owner"), age(r, "since"), cell(r, "reason", 80), cell(r, "exit", 80)) for r in rows
    ]
    table(("NODE", "OWNER", "SINCE", "REASON", "WAY OUT"), shown)
    if not rows:
        click.echo("no node is drained")
    for row in rows:
        told = row.get("beside")
        for said in told if isinstance(told, list) else []:
            click.echo(f"{cell(row, 'node')}: {cell({'said': said}, 'said')}")
    for risk in risks:
        until = cell(risk, "until")[:16].replace("T", " ") + " UTC"
        said = f"{cell(risk, 'code')}, risk accepted by {cell(risk, 'actor')} until {until}: {cell(risk, 'reason')}"
        click.echo(f"{cell(risk, 'node')}: {said}")


@click.command()
@click.argument("hostlist", required=False)
@click.argument("reason", required=False)
@click.option("--from-file", metavar="FILE", help="Read the nodes from FILE; then REASON is the only argument.")
@click.option("--dry-run", is_flag=True, help="Only show what would happen.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@service_options
@click.pass_context
def drain(
    ctx: click.Context,
    /,
    hostlist: str | None,
    reason: str | None,
    from_file: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **where: str | None,
) -> None:
    """Take nodes out of service for REASON; running jobs end by themselves.

    HOSTLIST may also name @partition and @feature=NAME; - reads names from standard input. A node that is out of
    service already keeps its reason. A drain made here is never resumed automatically; nodevet undo takes it back.

    \b
    Examples:
      nodevet drain gpu017 "fan 3 is noisy, ticket 4711"
      nodevet drain gpu[001-032],@debug "firmware update" --dry-run
      nodevet drain --from-file rack7.txt "cooling" --yes
      nodevet nodes --had gpu_lost --since 30d --names | nodevet drain - "GPU inspection" --yes
    """
    if from_file is not None and reason is None:
        hostlist, reason = None, hostlist
    nodes = node_list(hostlist, from_file)
    if not reason or not reason.strip():
        raise click.UsageError("reason is empty: say why, for whoever reads sinfo -R")
    number = None
    with service(ctx, **where) as client:
        rows = items_of(client.post("drains/preview", {"nodes": nodes, "verb": "drain"}, dict[str, object]))
        if not dry_run:
            agree(rows, "drain", yes)
            answer = client.post("drains", {"nodes": nodes, "reason": reason}, dict[str, object])
            rows, number = items_of(answer), answer.get("operation")
    show_rows(rows, as_json, number)


@click.command()
@click.argument("hostlist", required=False)
@click.option("--from-file", metavar="FILE", help="Read the nodes from FILE.")
@click.option("--no-verify", is_flag=True, help="Give back at once, without a verification.")
@click.option("--force", is_flag=True, help="With --no-verify: also a node that was drained for a fault.")
@click.option("--accept-risk", is_flag=True, help="Use the nodes as they are: what is known of them drains nothing.")
@click.option("--for", "seconds", metavar="TIME", callback=_duration, help="With --accept-risk: how long, 7d at most.")
@click.option("--reason", help="With --accept-risk: why, for everybody to read.")
@click.option("--dry-run", is_flag=True, help="Only show what would happen.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@service_options
@click.pass_context
def resume(
    ctx: click.Context,
    /,
    hostlist: str | None,
    from_file: str | None,
    no_verify: bool,
    force: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **more: str | float | bool | None,
) -> None:
    """Give nodes of ours back: their agents verify them first, and a clean node is resumed.

    A node whose reason is not ours is never touched. With --accept-risk nothing is verified, and until the time is
    over nothing that is known of the nodes now drains them or refuses a job; anything new does.

    \b
    Examples:
      nodevet resume gpu017
      nodevet resume gpu[001-032] --dry-run
      nodevet resume gpu017 --accept-risk --for 4h --reason "CPU jobs only tonight"
    """
    if force and not no_verify:
        raise click.UsageError("--force goes with --no-verify")
    nodes = node_list(hostlist, from_file)
    path, asked = "drains/resume", {"nodes": nodes, "verify": not no_verify, "force": force}
    if _risk(more):
        path, asked = "risks", {"nodes": nodes, "seconds": more["seconds"], "reason": more["reason"]}
    with service(ctx, **{k: v for k, v in more.items() if isinstance(v, str)}) as client:
        rows = items_of(client.post("drains/preview", {"nodes": nodes, "verb": "resume"}, dict[str, object]))
        number = None
        if not dry_run:
            agree(rows, "resume", yes)
            answer = client.post(path, asked, dict[str, object])
            rows, number = items_of(answer), answer.get("operation")
    show_rows(rows, as_json, number)


def _risk(options: Mapping[str, object]) -> bool:
    """Whether the risk is to be accepted; then how long and why are said too, and otherwise neither."""
    accept, said = bool(options["accept_risk"]), [options["seconds"], options["reason"]]
    if accept and not all(said):
        raise click.UsageError("--accept-risk needs --for and --reason")
    if isinstance(options["seconds"], float) and options["seconds"] > RISK_LIMIT:
        raise click.UsageError(f"--for {options['seconds']:g} s, expected 7d at most")
    if not accept and any(said):
        raise click.UsageError("--for and --reason go with --accept-risk")
    return accept


def items_of(answer: Row) -> list[Row]:
    """The rows of an answer."""
    items = answer.get("items")
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def agree(rows: list[Row], verb: str, yes: bool) -> None:
    """Ask before many nodes are touched: the number is typed, so that a slip of the finger does nothing."""
    count = sum(r.get("outcome") == "planned" for r in rows)
    if yes or count <= CONFIRM_ABOVE:
        return
    if not sys.stdin.isatty():
        raise Refused(f"{verb} of {count} nodes needs --yes where nobody can be asked")
    typed = click.prompt(f"{verb} {count} nodes? type {count} to go on", default="", show_default=False)
    if typed.strip() != str(count):
        raise Refused("nothing was changed")


def show_rows(rows: list[Row], as_json: bool, operation: object = None) -> None:
    """Print what became of each node; a refusal among them makes the exit code 1."""
    if as_json:
        print_json({"items": rows, "operation": operation})
    else:
        shown = [(cell(r, "node"), cell(r, "outcome"), cell(r, "state"), cell(r, "why", 110)) for r in rows]
        table(("NODE", "OUTCOME", "SLURM", "WHY"), shown)
        if operation is not None:
            click.echo(f"operation {operation}")
    bad = [r for r in rows if r.get("outcome") in NOT_DONE]
    if bad:
        raise Refused(f"{len(bad)} of {number(len(rows), 'node')} not changed")
