"""The server's own verbs of the nodevet command: server, db and token."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
ROLES = ["viewer", "operator", "admin", "agent"]
SCOPES = ["read", "jobs", "drain", "order", "ack", "admin"]


class Failed(click.ClickException):
    """Not done: refused, not found or in somebody's way."""

    exit_code = 1


class Misused(click.ClickException):
    """The settings or arguments cannot be used."""

    exit_code = 64


class Unanswered(click.ClickException):
    """The database does not answer."""

    exit_code = 69


def register(group: click.Group) -> None:
    """Add our verbs to ``group``."""
    for command in (server, db, token):
        group.add_command(command)


@contextmanager
def spoken() -> Iterator[None]:
    """Turn what can go wrong into one line and its exit code."""
    from sqlalchemy.exc import SQLAlchemyError

    from api.problems import Problem
    from api.settings import SettingsError
    from api.store.migrate import SchemaError
    from api.store.place import NoPlace
    from checks.judge.policy import PolicyError

    try:
        yield
    except (SettingsError, PolicyError) as error:
        raise Misused(str(error)) from error
    except Problem as problem:
        raise Misused(problem.detail) from problem
    except (SchemaError, NoPlace) as error:
        raise Failed(str(error)) from error
    except SQLAlchemyError as error:
        raise Unanswered(f"database: {error.__cause__ or error}") from error


def located(function: F) -> F:
    """Add --config and --db."""
    function = click.option("--db", metavar="URL", help="For example sqlite:////var/lib/nodevet/server.db.")(function)
    return click.option(
        "--config", "config", type=click.Path(path_type=Path), help="Instead of /etc/nodevet/server.toml."
    )(function)


@click.command()
@located
@click.option("--host", help="Address to listen on; 127.0.0.1 unless TLS or a proxy protects the way.")
@click.option("--port", type=click.IntRange(0, 65535), help="Port to listen on, 0 for a free one.")
@click.option("--cluster", help="Name of the Slurm cluster this server drains in.")
@click.option("--slurm-conf", help="slurm.conf of that cluster, where it is not the usual one.")
@click.option("--tls-cert", help="Certificate chain (PEM).")
@click.option("--tls-key", help="Its key (PEM).")
@click.option("--behind-proxy", is_flag=True, default=None, help="TLS ends at a proxy in front of us.")
@click.option(
    "--open-reads", "open_reads_on_loopback", is_flag=True, default=None, help="Reads from this machine need no token."
)
def server(config: Path | None, **flags: object) -> None:
    """Run the central service in the foreground.

    \b
    Example:
      nodevet token create --role admin > /root/nodevet.token
      nodevet server --cluster gpu1
    """
    from api.serve import CannotServe, serve
    from api.settings import load_settings

    with spoken():
        settings = load_settings(config, flags)
        if not settings.server.cluster:
            raise Misused("cluster has no name: give --cluster, or cluster in [server]")
        try:
            serve(settings)
        except CannotServe as error:
            raise Failed(str(error)) from error


@click.group()
def db() -> None:
    """Look after the server's database."""


@db.command("upgrade", short_help="Bring the schema up to this release, or leave it as it is.")
@located
def db_upgrade(config: Path | None, db: str | None) -> None:
    """Bring the schema up to this release; one transaction, nothing on failure.

    \b
    Example:
      runuser -u nodevet-server -- nodevet db upgrade
    """
    from api.store.migrate import head, upgrade

    with spoken(), _database(config, db, create=None) as database:
        done = upgrade(database)
    click.echo(f"database {'upgraded to' if done else 'is at'} revision {head()}")


@db.command("check")
@located
def db_check(config: Path | None, db: str | None) -> None:
    """Say whether this release can work with the database.

    \b
    Example:
      nodevet db check --db sqlite:////var/lib/nodevet-server/server.db
    """
    from api.store.migrate import head

    with spoken(), _database(config, db, create=False):
        pass
    click.echo(f"database is at revision {head()}")


@click.group()
def token() -> None:
    """Make, list and revoke tokens, directly in the database."""


@token.command("create")
@located
@click.option("--role", required=True, type=click.Choice(ROLES), help="viewer reads; operator also drains and resumes.")
@click.option("--cluster", help="An agent's cluster.")
@click.option("--node", help="An agent's node.")
@click.option("--label", default="", help="Whose it is or what it is for.")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(SCOPES), help="Only this of the role; repeatable.")
@click.option("--expires", help="How long it is good, such as 12h or 90d; default for ever.")
@click.option("--out", type=click.Path(path_type=Path), help="Write the secret there (0600, must not exist).")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def token_create(config: Path | None, db: str | None, out: Path | None, as_json: bool, **given: Any) -> None:
    """Make a token and print its secret, which is shown this once.

    \b
    Examples:
      nodevet token create --role operator --label alice --expires 90d
      nodevet token create --role viewer --scope jobs --label users
      nodevet token create --role agent --cluster gpu1 --node gpu017 --out ./gpu017.token
    """
    from api.tokens_cli import create

    with spoken(), _database(config, db, create=True) as database:
        create(database, out=out, as_json=as_json, **given)


@token.command("list")
@located
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def token_list(config: Path | None, db: str | None, as_json: bool) -> None:
    """Show tokens without their secrets.

    \b
    Example:
      nodevet token list
    """
    from api.tokens_cli import show

    with spoken(), _database(config, db, create=False) as database:
        show(database, as_json=as_json)


@token.command("revoke")
@located
@click.argument("prefix")
def token_revoke(config: Path | None, db: str | None, prefix: str) -> None:
    """End the token whose number or prefix is PREFIX.

    \b
    Example:
      nodevet token revoke 17
    """
    from api.tokens_cli import revoke

    with spoken(), _database(config, db, create=False) as database:
        if not revoke(database, prefix):
            _absent(f"no token {prefix} that is still good")
    click.echo(f"token {prefix} revoked")


def _absent(text: str) -> NoReturn:
    raise Failed(text)


@contextmanager
def _database(config: Path | None, url: str | None, *, create: bool | None) -> Iterator[Any]:
    """The database that the settings name.

    ``create``: True makes it and brings it up, False wants it there and at this release, None takes it as it is.
    """
    import os

    from api.settings import load_settings
    from api.store.migrate import check, upgrade
    from api.store.place import hand_over, open_database

    settings = load_settings(config, {"db": url})
    before = os.umask(0o077)
    try:
        database = open_database(settings.server.db, make=create is not False)
        try:
            if create and database.is_sqlite:
                upgrade(database)
            elif create is False:
                check(database)
            yield database
        finally:
            database.close()
            hand_over(database)
    finally:
        os.umask(before)
