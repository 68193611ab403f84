"""Jobs: what each attempt was answered on which node, in words for its user too."""

from __future__ import annotations

import click

from daemon.cli.output import Refused, json_option, print_json, table
from daemon.cli.service import Row, age, cell, every, service, service_options


@click.command()
@click.argument("job_id", required=False, type=int)
@click.option("--cluster", help="Needed with JOB_ID where several clusters report.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 10_000), help="How many at most.")
@json_option
@service_options
@click.pass_context
def jobs(
    ctx: click.Context, /, job_id: int | None, cluster: str | None, limit: int, as_json: bool, **where: str | None
) -> None:
    """List the newest job attempts, or show every answer to one job.

    \b
    Examples:
      nodevet jobs
      nodevet jobs 4711
    """
    with service(ctx, **where) as client:
        if job_id is None:
            rows = every(client, "jobs", most=limit, limit=min(limit, 500))
        else:
            home = cluster or _only_cluster(every(client, "jobs", most=10_000, limit=500), job_id)
            rows = every(client, f"jobs/{home}/{job_id}", limit=500)
    if as_json:
        print_json({"items": rows})
    elif job_id is None:
        _print_list(rows)
    else:
        _print_job(rows)


def _only_cluster(rows: list[Row], job_id: int) -> str:
    found = {str(r["cluster"]) for r in rows if r.get("job_id") == job_id}
    if len(found) != 1:
        raise Refused(f"job {job_id} is " + ("in several clusters: give --cluster" if found else "not known"))
    return found.pop()


def _print_list(rows: list[Row]) -> None:
    shown = [
        (cell(r, "attempt"), age(r, "last_report"), str(len(_names(r))), cell(r, "refused"), ",".join(_names(r))[:60])
        for r in rows
    ]
    table(("ATTEMPT", "AGO", "NODES", "REFUSED", "WHERE"), shown)


def _names(row: Row) -> list[str]:
    names = row.get("nodes")
    return [str(n) for n in names] if isinstance(names, list) else []


def _print_job(rows: list[Row]) -> None:
    shown = []
    for row in rows:
        job, decision = row.get("job"), row.get("decision")
        job, decision = (job if isinstance(job, dict) else {}), (decision if isinstance(decision, dict) else {})
        seconds = row.get("seconds")
        shown.append(
            (
                cell(job, "restart_count"),
                cell(row, "node"),
                cell(row, "occasion"),
                f"{seconds:.2f}" if isinstance(seconds, int | float) else "-",
                cell(decision, "allowed"),
                cell(decision, "reason" if decision.get("reason") else "why", 100),
            )
        )
    table(("RESTART", "NODE", "OCCASION", "SECONDS", "ANSWER", "WHY"), shown)
    for message in dict.fromkeys(_for_user(row) for row in rows):
        if message:
            click.echo(f"for the job's user: {message}")


def _for_user(row: Row) -> str:
    decision = row.get("decision")
    if not isinstance(decision, dict) or decision.get("allowed") != "refuse":
        return ""
    text = cell(decision, "user_message")
    return "" if text == "-" else text
