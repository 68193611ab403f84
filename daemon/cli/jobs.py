"""Jobs: what each attempt was answered on which node, in words for its user too."""

from __future__ import annotations

from urllib.parse import quote

import click

from daemon.central import Central, NotAllowed
from daemon.central import Refused as NoAnswer
from daemon.cli.job_facts import facts, print_evidence, print_facts
from daemon.cli.output import Refused, json_option, print_json, table
from daemon.cli.rest import duration
from daemon.cli.service import Row, age, cell, every, service, service_options


@click.command()
@click.argument("job_id", required=False, type=int)
@click.option("--refused", "only", flag_value="refused", help="Only attempts that a node refused.")
@click.option("--held", "only", flag_value="held", help="Only refused attempts that Slurm holds.")
@click.option("--cancelled", "only", flag_value="cancelled", help="Only refused attempts that Slurm cancelled.")
@click.option("--since", metavar="TIME", callback=duration, help="Only the last TIME, such as 30m, 24h or 7d.")
@click.option("--cluster", help="Needed with JOB_ID where several clusters report.")
@click.option("--limit", default=50, show_default=True, type=click.IntRange(1, 10_000), help="How many at most.")
@json_option
@service_options
@click.pass_context
def jobs(
    ctx: click.Context,
    /,
    job_id: int | None,
    only: str | None,
    since: float | None,
    cluster: str | None,
    limit: int,
    as_json: bool,
    **where: str | None,
) -> None:
    """List the newest job attempts, or tell why one job was refused and what Slurm does next.

    A token of scope "jobs", as a site may give it to every user, shows what became of one job in its user's words.

    \b
    Examples:
      nodevet jobs
      nodevet jobs --held --since 24h
      nodevet jobs 4711
    """
    with service(ctx, **where) as client:
        if job_id is not None and (said := _words_only(client, job_id, cluster)) is not None:
            _print_words(said, as_json)
            return
        if job_id is None:
            rows = every(client, "jobs", most=limit, limit=min(limit, 500), only=only, since=_text(since))
            told: Row = {}
            known: list[Row] = []
        else:
            home = cluster or _only_cluster(every(client, "jobs", most=10_000, limit=500), job_id)
            path = f"jobs/{quote(home, safe='')}/{job_id}"
            told = client.get(f"{path}/explain", dict[str, object])
            # A job that no report speaks of may still have begun, as a hook that found no agent tells.
            rows = _reports(client, path)
            known = facts(client, path)
    if as_json:
        print_json({"items": rows} if job_id is None else {"items": rows, "explained": told, "facts": known})
    elif job_id is None:
        _print_list(rows)
    else:
        _print_job(rows)
        _print_told(told)
        print_evidence(rows)
        print_facts(known)


def _words_only(client: Central, job_id: int, cluster: str | None) -> Row | None:
    """The user's words, where this token may read nothing else."""
    try:
        client.get("jobs", dict[str, object], limit=1)
    except NotAllowed:
        return client.get(f"words/jobs/{job_id}", dict[str, object], cluster=cluster)
    return None


def _print_words(said: Row, as_json: bool) -> None:
    if as_json:
        print_json(said)
        return
    attempts = said.get("attempts")
    for attempt in attempts if isinstance(attempts, list) else []:
        click.echo(f"{cell(attempt, 'attempt')}, {age(attempt, 'at')} ago: {cell(attempt, 'text')}")


def _text(since: float | None) -> str | None:
    return None if since is None else f"{since:g}"


def _reports(client: Central, path: str) -> list[Row]:
    try:
        return every(client, path, limit=500)
    except NoAnswer:
        return []


def _only_cluster(rows: list[Row], job_id: int) -> str:
    found = {str(r["cluster"]) for r in rows if r.get("job_id") == job_id}
    if len(found) != 1:
        raise Refused(f"job {job_id} is " + ("in several clusters: give --cluster" if found else "not known"))
    return found.pop()


def _print_list(rows: list[Row]) -> None:
    shown = []
    for r in rows:
        names = _names(r)
        counts = (cell(r, "refused"), cell(r, "unvetted"), cell(r, "began"))
        shown.append(
            (cell(r, "attempt"), age(r, "last_report"), str(len(names)), *counts, cell(r, "fate"), ",".join(names)[:60])
        )
    table(("ATTEMPT", "AGO", "NODES", "REFUSED", "UNVETTED", "FAULTS", "FATE", "WHERE"), shown)
    if not rows:
        click.echo("no job attempt")


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


def _print_told(told: Row) -> None:
    attempts = told.get("attempts")
    for attempt in attempts if isinstance(attempts, list) else []:
        click.echo(f"\nattempt {cell(attempt, 'attempt')}, {age(attempt, 'at')} ago")
        click.echo(f"  for the operator: {cell(attempt, 'for_operator')}")
        click.echo(f"  for the user: {cell(attempt, 'for_user')}")
        began = attempt.get("began")
        if isinstance(began, list) and began:
            print_began(began)


def print_began(rows: list[Row]) -> None:
    """Faults that began while a job ran there: a coincidence in time, no proof."""
    shown = [
        (
            age(r, "began_at"),
            cell(r, "node"),
            cell(r, "attempt"),
            cell(r, "uid"),
            cell(r, "code"),
            cell(r, "target"),
            "yes" if r.get("shared") else "no",
            cell(r, "message", 80),
        )
        for r in rows
    ]
    click.echo("faults that began while a job ran (a coincidence in time, no proof):")
    table(("AGO", "NODE", "DURING", "UID", "CODE", "TARGET", "SHARED", "MESSAGE"), shown)
