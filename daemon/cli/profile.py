"""What nodes of each kind must have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from daemon.cli.output import Refused, json_option, nearest, print_json, table
from daemon.cli.settings import settings

if TYPE_CHECKING:
    from checks.profile import Profile
    from daemon.config import Config


def known_profiles(config: Config) -> dict[str, Profile]:
    """Shipped and site profiles by name; a directory that we may not read counts as absent."""
    from checks.profile import ProfileError, profiles

    try:
        return profiles(Path(config.agent.profile_dir))
    except PermissionError:
        return profiles(None)
    except (ProfileError, OSError) as error:
        raise Refused(f"profile: {error}") from error


@click.group()
def profile() -> None:
    """Show what nodes of each kind must have."""


@profile.command(name="list")
@json_option
@click.pass_context
def list_profiles(ctx: click.Context, as_json: bool) -> None:
    """List the profiles that are known here.

    \b
    Example:
      nodevet profile list
    """
    known = known_profiles(settings(ctx))
    if as_json:
        print_json({name: p.title for name, p in sorted(known.items())})
        return
    rows = [(p.name, ", ".join(f"{i} x {n}" for i, n in p.match.pci.items()), p.title) for p in known.values()]
    table(("PROFILE", "PCI", "TITLE"), rows)


@profile.command()
@click.argument("name")
@json_option
@click.pass_context
def show(ctx: click.Context, name: str, as_json: bool) -> None:
    """Show what one profile asks of its nodes.

    \b
    Example:
      nodevet profile show hgx-h100
    """
    known = known_profiles(settings(ctx))
    if name not in known:
        raise Refused(f"no profile {name!r}{nearest(name, known)}")
    found = known[name]
    if as_json:
        print_json(found)
        return
    click.echo(f"{found.name}: {found.title}")
    for pci, count in found.match.pci.items():
        click.echo(f"match {pci}: {count}")
    for check, options in sorted(found.checks.items()):
        for key, value in options.items():
            click.echo(f"{check}.{key} = {value}")
    for check in found.skip:
        click.echo(f"not asked: {check}")


@profile.command(short_help="Write a profile from this node, known to be good.")
@click.option("--name", required=True, help="The new profile's name.")
@click.option("--title", default="", help="What people read of it.")
@click.option("--sysroot", type=click.Path(exists=True, file_okay=False, path_type=Path), help="A captured tree.")
def capture(name: str, title: str, sysroot: Path | None) -> None:
    """Write a profile from this node, which must be known to be good; the driver is not asked.

    \b
    Example:
      nodevet profile capture --name rack7 > /etc/nodevet/profiles.d/rack7.toml
    """
    from checks import Host
    from checks.capture import NotGood
    from checks.capture import capture as written
    from checks.profile import read_profile

    if not name or len(name) > 64 or not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise click.UsageError(f"name {name[:64]!r}: expected letters, digits, - _ .")
    try:
        text = written(Host(root=sysroot) if sysroot else Host(), name, title or name)
        read_profile(text, name)
    except (NotGood, OSError, ValueError) as error:
        raise Refused(f"this node gives no profile: {error}") from error
    click.echo(text, nl=False)
