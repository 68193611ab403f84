"""What will bite is said before it bites: the running Slurm, this machine and the central service."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from daemon.cli.output import coloured, json_option, number, print_json
from daemon.cli.service import address, service_options

if TYPE_CHECKING:
    from slurm.doctor import Advice

_COLOURS = {"problem": "red", "warning": "yellow", "ok": "green"}


@click.command()
@click.option("--all", "everything", is_flag=True, help="Show what is fine, too.")
@click.option(
    "--as-service", is_flag=True, help="Take this account for the central service's: it must be able to drain."
)
@json_option
@service_options
@click.pass_context
def doctor(ctx: click.Context, /, everything: bool, as_service: bool, as_json: bool, **where: str | None) -> int:
    """Look at the running Slurm, this machine and the central service, and warn of what will bite.

    Changes nothing. Any user may run it and is told what that user may see; run it as root on a compute node, and as
    the service's account beside the central service. Exit 1 if there is a problem.

    \b
    Examples:
      nodevet doctor
      nodevet doctor --json | jq '.[] | select(.level == "problem")'
      runuser -u nodevet-server -- nodevet doctor
    """
    from checks import clean
    from daemon.config import ConfigError, load_config
    from daemon.doctor.examine import Subject, examine
    from slurm.doctor import Advice, worst

    broken: list[Advice] = []
    given = ctx.find_root().obj
    try:
        config = load_config(Path(given) if given else None)
    except ConfigError as error:
        import os

        from daemon.agent.rescue import rescue

        why = "the agent works with what could be rescued of it"
        broken.append(Advice("problem", "configuration", clean(error, 400), why, "nodevet config check"))
        config = rescue(Path(given) if given else None, os.environ)
    url, token, ca_file = _central(ctx, where, config.central.url)
    found = worst([*broken, *examine(Subject(config, url, token, ca_file, as_service))])
    if as_json:
        print_json([asdict(advice) for advice in found])
    else:
        _print(found, everything)
    return int(any(advice.level == "problem" for advice in found))


def _central(ctx: click.Context, where: dict[str, str | None], configured: str) -> tuple[str, str, str | None]:
    """Where the service is; nothing configured and nothing said means that there is none."""
    import os

    try:
        told = address(ctx, where.get("server"), where.get("token_file"), where.get("ca_file"))
    except click.ClickException:
        return configured, os.environ.get("NODEVET_TOKEN", ""), where.get("ca_file")
    named = where.get("server") or os.environ.get("NODEVET_SERVER") or configured
    return (told.url if named else ""), told.token, told.ca_file


def _print(found: list[Advice], everything: bool) -> None:
    for advice in found:
        if advice.level == "ok" and not everything:
            continue
        word = advice.level.ljust(7)
        shown = click.style(word, fg=_COLOURS[advice.level]) if coloured() else word
        click.echo(f"{shown}  {advice.about}: {advice.what}")
        if advice.why:
            click.echo(f"         why:   {advice.why}")
        if advice.write:
            click.echo(f"         write: {advice.write}")
    counts = {level: sum(advice.level == level for advice in found) for level in _COLOURS}
    click.echo(f"{number(counts['problem'], 'problem')}, {number(counts['warning'], 'warning')}, {counts['ok']} ok")
