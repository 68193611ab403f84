"""Whether the cluster is protected: nodes without an agent, and jobs that began without a whole answer."""

from __future__ import annotations

import click

from daemon.cli.output import json_option, print_json, table
from daemon.cli.rest import duration
from daemon.cli.service import Row, age, cell, service, service_options

CAUSES = {
    "hook_no_agent": "no agent answered the hook",
    "hook_refused": "the agent's socket took no call",
    "hook_deadline": "the agent did not answer in time",
    "hook_lost": "the agent's answer was lost",
    "hook_bad_answer": "the agent's answer was not understood",
    "hook_bad_peer": "whoever answered was not the agent",
    "hook_stop": "the STOP file is there",
    "hook_args": "the hook is wrongly configured in slurm.conf",
    "stop": "the STOP file is there",
    "paused": "a person paused the node, or it is in maintenance",
    "config_broken": "the agent's configuration is broken",
    "too_early": "the agent was still starting",
    "late": "the agent had no decision in time",
    "failed": "the agent failed inside",
    "unknown_verdict": "a required check had no fresh answer",
    "admitted_without_permit": "a fault was known, but no permit to refuse",
    "gate_expired": "not every node of the job had answered",
    "gate_absent": "a node of the job had no agent to wait for",
    "no_prolog_report": "the job's end was reported, its beginning was not",
    "no_report": "nothing was heard of a node of the job",
    "no_agent": "slurmctld told of the job, and the node never had an agent",
    "agent_away": "slurmctld told of the job, and the node's agent had been silent for 5 minutes",
    "no_hook": "slurmctld told of the job, and no hook asked the agent: slurm.conf or PrologFlags",
}


@click.command()
@click.option(
    "--since", default="24h", show_default=True, metavar="TIME", callback=duration, help="Jobs of the last TIME."
)
@json_option
@service_options
@click.pass_context
def coverage(ctx: click.Context, /, since: float, as_json: bool, **where: str | None) -> None:
    """Show whether the cluster is protected: jobs that began unvetted, by cause, and nodes without an agent.

    The one number: of all starts of jobs on nodes (a job on eight nodes is eight), the share that got a whole answer,
    admitted or refused, before they began. With PrologSlurmctld set, jobs that no hook spoke for count as well.

    \b
    Examples:
      nodevet coverage
      nodevet coverage --since 7d --json | jq .jobs.protected
    """
    with service(ctx, **where) as client:
        seen = client.get("coverage", dict[str, object], since=f"{since:g}")
    if as_json:
        print_json(seen)
        return
    jobs = seen.get("jobs")
    if isinstance(jobs, dict):
        _print_jobs(jobs)
    _print_nodes(seen)


def _print_jobs(jobs: Row) -> None:
    if jobs.get("protected") is None:
        click.echo("no job has begun in that time")
        return
    click.echo(
        f"{cell(jobs, 'protected')} % of {cell(jobs, 'starts')} starts of jobs on nodes were vetted: "
        f"{cell(jobs, 'vetted')} admitted, {cell(jobs, 'refused')} refused, {cell(jobs, 'unvetted')} began unvetted "
        f"({cell(jobs, 'jobs_unvetted')} jobs)"
    )
    causes, newest = jobs.get("causes"), jobs.get("newest")
    if isinstance(causes, dict) and causes:
        worst = sorted(causes.items(), key=lambda item: (-item[1], item[0]))
        table(("UNVETTED", "CAUSE", "MEANS"), [(str(n), cause, CAUSES.get(cause, "-")) for cause, n in worst])
    if isinstance(newest, list) and newest:
        click.echo()
        rows = [(age(r, "at"), cell(r, "node"), cell(r, "attempt"), cell(r, "outcome")) for r in newest[:10]]
        table(("AGO", "NODE", "JOB", "CAUSE"), rows)


def _print_nodes(seen: Row) -> None:
    click.echo(f"{cell(seen, 'fresh')} of {cell(seen, 'nodes')} nodes have a fresh agent")
    for title, name in (("silent agent", "stale"), ("no agent", "without_agent"), ("powered down", "no_data")):
        names = seen.get(name)
        if isinstance(names, list) and names:
            click.echo(f"{title}: {', '.join(map(str, names[:50]))}{' …' if len(names) > 50 else ''}")
    limits = seen.get("limits")
    if isinstance(limits, dict) and not limits.get("gate_possible"):
        click.echo(f"job gate off: {cell(limits, 'gate_why_not')}")
