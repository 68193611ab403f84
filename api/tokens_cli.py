"""Tokens on the machine of the database: how the first administrator gets in."""

from __future__ import annotations

import getpass
import os
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import click
import msgspec

from api.auth.grants import Grant, token_of
from api.problems import Unacceptable
from api.store.database import Database
from api.store.store import Store, utc_now
from api.store.views import TokenView

_SPAN = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
LISTED = 100_000


def create(database: Database, *, out: Path | None, as_json: bool, expires: str | None, **given: Any) -> None:
    """Make a token; the secret goes to standard output or to ``out``, all else to standard error."""
    grant = Grant(expires_at=_end(expires), **given)
    store, actor = Store(database), f"{_user()} (command line)"
    view = token_of(grant, actor)
    handle = _file(out) if out else None
    made, secret = store.create_token(view)
    store.audit(actor, "token created", made.prefix, f"role {made.role} node {made.node or '-'}")
    if handle is not None:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(secret + "\n")
    elif as_json:
        click.echo(msgspec.json.encode({**msgspec.structs.asdict(made), "secret": secret}).decode())
    else:
        click.echo(secret)
    where = f", secret in {out}" if out else "; the secret is shown this once"
    click.echo(f"token {made.prefix} role={made.role} expires={made.expires_at or 'never'}{where}", err=True)


def show(database: Database, *, as_json: bool) -> None:
    """Print the tokens."""
    tokens = Store(database).tokens(limit=LISTED)
    if as_json:
        click.echo(msgspec.json.encode({"items": tokens}).decode())
        return
    now = utc_now()
    click.echo(f"{'ID':>4}  {'PREFIX':12}  {'ROLE':8}  {'STATE':8}  {'NODE':24}  LABEL")
    for t in tokens:
        click.echo(f"{t.id:>4}  {t.prefix:12}  {t.role:8}  {_state(t, now):8}  {t.node or '-':24}  {t.label}")


def revoke(database: Database, prefix: str) -> bool:
    """End the token with this number or prefix; whether there was one still good."""
    store = Store(database)
    found = [t for t in store.tokens(limit=LISTED) if prefix in (str(t.id), t.prefix)]
    done = bool(found) and store.revoke_token(found[0].id)
    if done:
        store.audit(f"{_user()} (command line)", "token revoked", found[0].prefix)
    return done


def _state(token: TokenView, now: datetime) -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.expires_at is not None and token.expires_at <= now else "good"


def _end(expires: str | None) -> datetime | None:
    if expires is None:
        return None
    match = _SPAN.fullmatch(expires)
    if match is None:
        raise Unacceptable(f"expires {expires[:64]!r}, expected a number with s, m, h or d, such as 90d")
    return utc_now() + timedelta(seconds=int(match[1]) * _SECONDS[match[2]])


def _file(path: Path) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unacceptable(f"file {path}: {error.strerror}") from error


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"
