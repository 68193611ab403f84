"""What follows from findings: the shipped policy with the site's layers over it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from daemon.cli.output import SITE, Refused, json_option, nearest, print_json, table, why
from daemon.cli.settings import settings

if TYPE_CHECKING:
    from checks.judge.policy import Policy
    from daemon.config import Config


def site_policy(config: Config) -> Policy:
    """The policy in force on this node; a directory that we may not read counts as absent."""
    from checks.judge.policy import PolicyError, load_policy

    try:
        return load_policy(Path(config.agent.policy_dir))
    except PermissionError:
        click.echo(f"{config.agent.policy_dir}: not readable for this user, shown is the shipped policy", err=True)
        return load_policy(None)
    except (PolicyError, OSError) as error:
        raise Refused(f"policy: {error}") from error


@click.group()
def policy() -> None:
    """Show and validate what follows from findings."""


@policy.command()
@click.argument("code", required=False)
@json_option
@click.pass_context
def show(ctx: click.Context, code: str | None, as_json: bool) -> None:
    """Show the rules in force, each value with its origin.

    \b
    Examples:
      nodevet policy show
      nodevet policy show gpu_lost
    """
    from checks.judge.rules import TOLD

    found = site_policy(settings(ctx))
    parts = {"defaults": found.defaults, "codes": found.codes}
    rows = [
        (f"{part}.{key}.{field}", getattr(rule, field))
        for part, rules in parts.items()
        for key, rule in rules.items()
        for field in rule.__struct_fields__
        if field not in TOLD and getattr(rule, field) is not None and code in (None, key)
    ]
    if code is not None and not rows:
        raise Refused(_no_rule(code, [*found.codes, *found.defaults]))
    if as_json:
        rules = {key: {"value": value, "origin": found.origin.get(key, "default")} for key, value in rows}
        print_json({"version": found.version, "rules": rules})
        return
    click.echo(f"version {found.version}")
    table(("RULE", "VALUE", "ORIGIN"), [(key, str(value), found.origin.get(key, "default")) for key, value in rows])


def _no_rule(code: str, ruled: list[str]) -> str:
    """A code without a rule goes by its status and blame; another name is no code."""
    import daemon.agent.codes
    import daemon.lanes.codes  # noqa: F401 - both declare codes of our own trouble
    from checks import CODES
    from checks.catalog import load

    load()
    if code not in CODES:
        return f"no code {code!r}{nearest(code, [*CODES, *ruled])}"
    return f"{code} has no rule of its own: nodevet explain {code} says what follows"


@policy.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.pass_context
def validate(ctx: click.Context, files: tuple[Path, ...]) -> None:
    """Prove policy files, or those in force, before they reach a node.

    \b
    Example:
      nodevet policy validate policy.d/*.toml
    """
    import daemon.agent.codes
    import daemon.lanes.codes  # noqa: F401 - both declare codes of our own trouble
    from checks import CODES
    from checks.catalog import load
    from checks.judge.policy import PolicyError, read_pack

    load()
    chosen = files or tuple(sorted(Path(settings(ctx).agent.policy_dir).glob("*.toml")))
    site_policy(settings(ctx))
    for path in chosen:
        try:
            pack = read_pack(path.read_text(encoding="utf-8"), str(path))
        except (PolicyError, OSError, UnicodeDecodeError) as error:
            raise Refused(str(error) if isinstance(error, PolicyError) else f"{path}: {why(error)}") from error
        for name in pack.codes:
            if name not in CODES and not name.startswith(SITE):
                raise Refused(f"{path}: no check gives the code {name!r}{nearest(name, CODES)}")
        click.echo(f"{path}: ok, version {pack.version}")
    if not chosen:
        click.echo("no site policy: the shipped one is in force")
