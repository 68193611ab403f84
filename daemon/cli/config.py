"""What is configured on this node, and where each value comes from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from daemon.cli.output import Refused, json_option, print_json, table
from daemon.cli.settings import settings
from daemon.config import Config


@click.group()
def config() -> None:
    """Check and show the configuration."""


@config.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.pass_context
def check(ctx: click.Context, file: Path | None) -> None:
    """Prove the configuration, the profiles and the policy it names.

    \b
    Example:
      nodevet config check ./nodevet.toml
    """
    from checks.judge.policy import PolicyError, load_policy
    from checks.profile import ProfileError, profiles
    from daemon.plan import plan

    if file is not None:
        ctx.find_root().obj = str(file)
    found = settings(ctx)
    try:
        load_policy(Path(found.agent.policy_dir))
        known = profiles(Path(found.agent.profile_dir))
        if found.agent.profile not in ("auto", *known):
            raise ProfileError(f"agent.profile: no profile {found.agent.profile!r}, known: {', '.join(sorted(known))}")
        for profile in known.values():
            plan(found, profile)
    except (PolicyError, ProfileError, OSError) as error:
        raise Refused(str(error)) from error
    if found.agent.node is None:
        click.echo("agent.node is not set: the agent needs it (or SLURMD_NODENAME)", err=True)
    click.echo(f"{found.path or 'no file, defaults'}: ok")


@config.command()
@json_option
@click.pass_context
def show(ctx: click.Context, as_json: bool) -> None:
    """Show every value in force with its origin.

    \b
    Examples:
      nodevet config show
      nodevet --config ./nodevet.toml config show --json
    """
    found = settings(ctx)
    values = list(_values(found))
    if as_json:
        print_json({key: {"value": value, "origin": found.origin_of(key)} for key, value in values})
        return
    rows = [(key, _shown(value), found.origin_of(key)) for key, value in values]
    table(("SETTING", "VALUE", "ORIGIN"), rows)


def _shown(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else "-" if value is None else str(value)


def _values(found: Config) -> Iterator[tuple[str, object]]:
    for section in ("agent", "central", "host", "slurm", "remedy"):
        for key, value in msgspec.structs.asdict(getattr(found, section)).items():
            yield f"{section}.{key}", value
    for name, check in found.checks.items():
        for key in ("enabled", "interval", "timeout"):
            if getattr(check, key) is not None:
                yield f"checks.{name}.{key}", getattr(check, key)
        for key, value in check.options.items():
            yield f"checks.{name}.{key}", value
