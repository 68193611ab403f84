"""Nodes as the central service has them: all with their verdicts, and one with everything."""

from __future__ import annotations

from urllib.parse import quote

import click

from daemon.cli.jobs import print_began
from daemon.cli.output import json_option, number, paint, print_json, table, warn_unknown
from daemon.cli.repair import strikes
from daemon.cli.rest import duration
from daemon.cli.service import Row, age, cell, cluster_of, every, service, service_options

PAST = ("had", "part", "driver", "drained", "rebooted")
SERVICE = click.Choice(
    ["in_service", "suspect", "draining", "drained", "repairing", "verifying", "probation", "held", "retired"]
)
VERDICTS = click.Choice(["healthy", "degraded", "faulty", "unknown"])


@click.command()
@click.argument("hostlist", required=False)
@click.option("--verdict", type=VERDICTS, help="Only nodes with this verdict.")
@click.option("--service", type=SERVICE, help="Only nodes that stand here between service and repair.")
@click.option("--cluster", help="Only this cluster.")
@click.option("--search", "q", default="", help="Words in name, summary or reason.")
@click.option("--had", metavar="CODE", help="Only nodes where CODE was seen (with --since: lately, or still is).")
@click.option("--part", metavar="SERIAL", help="Only nodes in which this GPU was ever seen: UUID, or its beginning.")
@click.option("--driver", metavar="VERSION", help="Only nodes that run this driver, or ran it since.")
@click.option("--drained", metavar="N", type=click.IntRange(min=1), help="Only nodes out of service N times or more.")
@click.option(
    "--rebooted", metavar="N", type=click.IntRange(min=1), help="Only nodes that came up anew N times or more."
)
@click.option("--since", metavar="TIME", callback=duration, help="What the last TIME brought, such as 24h or 30d.")
@click.option("--names", is_flag=True, help="Print names only, one a line, as nodevet drain - reads them.")
@json_option
@service_options
@click.pass_context
def nodes(
    ctx: click.Context,
    /,
    hostlist: str | None,
    verdict: str | None,
    cluster: str | None,
    q: str,
    since: float | None,
    names: bool,
    as_json: bool,
    **more: str | int | None,
) -> None:
    """List nodes with their verdict, Slurm state and what is wrong, all of them or those with a certain past.

    \b
    Examples:
      nodevet nodes
      nodevet nodes gpu[001-032] --verdict faulty
      nodevet nodes --had gpu_xid_reset --drained 2 --since 30d
      nodevet nodes --part GPU-5f1c2a
      nodevet nodes --service drained
      nodevet nodes --json | jq '.items[] | select(.verdict != "healthy") | .node'
    """
    past = {name: more.pop(name) for name in PAST}
    state = more.pop("service")
    if since is not None:
        if all(value is None for value in past.values()):
            raise click.UsageError("--since goes with --had, --part, --driver, --drained or --rebooted")
        past["since"] = f"{since:g}"
    warn_unknown("code", str(past["had"]) if past["had"] else None)
    where = {k: v for k, v in more.items() if v is None or isinstance(v, str)}
    with service(ctx, **where) as client:
        asked: dict[str, str | int | None] = {
            "nodes": hostlist,
            "verdict": verdict,
            "cluster": cluster,
            "q": q or None,
            "service": state,
            **past,
        }
        rows = every(client, "nodes", asked=asked, limit=500)
    if as_json:
        print_json({"items": rows})
        return
    if names:
        for row in rows:
            click.echo(cell(row, "node"))
        return
    if any(row.get("simulated") for row in rows):
        click.echo("SIMULATED hardware", err=True)
    shown = [
        (
            cell(r, "node"),
            cell(r, "verdict"),
            cell(r, "service"),
            cell(r, "slurm_state"),
            age(r, "last_contact"),
            _line(r),
        )
        for r in rows
    ]
    table(("NODE", "VERDICT", "SERVICE", "SLURM", "SEEN", "WHY"), shown, painted=1)
    click.echo(_counted(rows))


def _line(row: Row) -> str:
    """What is wrong, or who drained it."""
    if row.get("paused_until"):
        return _hands_off(row)
    summary, reason = cell(row, "summary", 100), cell(row, "reason", 100)
    return reason if summary == "-" else summary


def _hands_off(row: Row) -> str:
    """Until when and why; what is in repair has no end that means anything."""
    why = cell(row, "paused_why", 80)
    if why.startswith("in repair, ticket "):
        return f"{why} (until nodevet ready)"
    until = cell(row, "paused_until")[:16].replace("T", " ")
    return f"PAUSED until {until} UTC{'' if why == '-' else f': {why}'}"


def _counted(rows: list[Row]) -> str:
    found: dict[str, int] = {}
    for row in rows:
        found[str(row.get("verdict"))] = found.get(str(row.get("verdict")), 0) + 1
    told = ", ".join(f"{n} {v}" for v, n in sorted(found.items()))
    return f"{number(len(rows), 'node')}: {told}" if rows else "no such node"


@click.command()
@click.argument("name")
@click.option("--cluster", help="Needed where two clusters have a node of this name.")
@click.option("--all", "everything", is_flag=True, help="Show ok and skipped findings too.")
@click.option(
    "--history", is_flag=True, help="Show what happened on it: findings, jobs, drains, reboots, parts, people."
)
@click.option("--since", metavar="TIME", callback=duration, help="With --history: the last TIME, such as 24h or 30d.")
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1, 10_000), help="Of --history.")
@json_option
@service_options
@click.pass_context
def node(
    ctx: click.Context,
    /,
    name: str,
    cluster: str | None,
    everything: bool,
    history: bool,
    since: float | None,
    limit: int,
    as_json: bool,
    **where: str | None,
) -> None:
    """Show one node: verdict and why, findings, drain and way out, recent reports; or its history.

    \b
    Examples:
      nodevet node gpu017
      nodevet node gpu017 --history --since 30d
      nodevet node gpu017 --json | jq .findings
    """
    if since is not None and not history:
        raise click.UsageError("--since goes with --history")
    with service(ctx, **where) as client:
        home = cluster_of(client, name, cluster)
        if history:
            path = f"nodes/{quote(home, safe='')}/{quote(name, safe='')}/timeline"
            back = None if since is None else f"{since:g}"
            _print_history(every(client, path, most=limit, limit=min(limit, 500), since=back), as_json)
            return
        seen = client.get(f"nodes/{quote(home, safe='')}/{quote(name, safe='')}", dict[str, object])
    if as_json:
        print_json(seen)
        return
    _print_node(seen, everything)


def _print_history(rows: list[Row], as_json: bool) -> None:
    if as_json:
        print_json({"items": rows})
        return
    shown = [
        (cell(r, "at")[:16].replace("T", " "), cell(r, "kind"), cell(r, "what", 60), cell(r, "detail", 110))
        for r in rows
    ]
    table(("AT (UTC)", "KIND", "WHAT", "DETAIL"), shown)
    if not rows:
        click.echo("nothing is kept of that time")


def _print_node(seen: Row, everything: bool) -> None:
    label = "  (SIMULATED hardware)" if seen.get("simulated") else ""
    click.echo(f"{cell(seen, 'node')} in {cell(seen, 'cluster')}: {paint(cell(seen, 'verdict'))}{label}")
    for title, name in (("why", "summary"), ("slurm", "slurm_state"), ("reason", "reason"), ("profile", "profile")):
        if seen.get(name):
            click.echo(f"  {title}: {cell(seen, name)}")
    if seen.get("risk"):
        click.echo(f"  {cell(seen, 'risk')}")
    if seen.get("paused_until"):
        click.echo(f"  {_hands_off(seen)}: nothing is asked, refused or drained")
    click.echo(f"  last contact: {age(seen, 'last_contact')} ago, data {cell(seen, 'data')}")
    _print_service(seen.get("standing"))
    drain = seen.get("drain")
    if isinstance(drain, dict):
        click.echo(f"  drain: {cell(drain, 'owner')} {cell(drain, 'phase')}; way out: {cell(drain, 'exit')}")
    findings = [f for f in _rows(seen.get("findings")) if everything or f.get("status") not in ("ok", "skipped")]
    if findings:
        click.echo()
        told = [(cell(f, "status"), cell(f, "code"), cell(f, "target"), cell(f, "message")) for f in findings]
        table(("STATUS", "CODE", "TARGET", "MESSAGE"), told, painted=0)
    if began := _rows(seen.get("began")):
        click.echo()
        print_began(began[:10])
    reports = [r for r in _rows(seen.get("reports")) if r.get("occasion") != "interval"][:10]
    if reports:
        click.echo()
        table(("AGO", "OCCASION", "JOB", "ANSWER", "WHY"), [_report(r) for r in reports])


def _print_service(found: object) -> None:
    """Where the node stands, what brings it back, and how it moved lately."""
    if not isinstance(found, dict):
        return
    why = f": {cell(found, 'why', 120)}" if found.get("why") else ""
    click.echo(f"  service: {cell(found, 'state')} for {age(found, 'since')}{why}")
    if found.get("way"):
        click.echo(f"  back in service: {cell(found, 'way')}")
    if found.get("strikes"):
        click.echo(f"  strikes: {strikes(found)}")
    for move in _rows(found.get("moves"))[:5]:
        said = f": {cell(move, 'why', 100)}" if move.get("why") else ""
        came = f"{cell(move, 'old')} -> {cell(move, 'new')}" if move.get("old") else f"first seen {cell(move, 'new')}"
        click.echo(f"    {age(move, 'at')} ago {came}{said}")


def _report(row: Row) -> tuple[str, str, str, str, str]:
    job, decision = row.get("job"), row.get("decision")
    return (
        age(row, "received_at"),
        cell(row, "occasion"),
        cell(job, "job_id") if isinstance(job, dict) else "-",
        cell(decision, "allowed") if isinstance(decision, dict) else "-",
        (cell(decision, "reason", 80) if isinstance(decision, dict) else "-"),
    )


def _rows(value: object) -> list[Row]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
