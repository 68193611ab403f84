"""A token's secret is shown once and kept as a digest; the prefix finds the row, the digest proves the secret."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, insert, select, update

from api.store.tables import tokens
from api.store.views import TokenView

MARK = "nvt_"
_PREFIX = len(MARK) + 8
LENGTH = len(MARK) + 8 + 43  # a name of 8 characters, then 32 random bytes in URL-safe base64


def digest(secret: str) -> str:
    """What is kept of a secret; 256 random bits need no salt and no slow hash."""
    return hashlib.sha256(secret.encode()).hexdigest()


def create(connection: Connection, at: datetime, view: TokenView) -> tuple[TokenView, str]:
    """Store a token as ``view`` describes it and give it with its number, its prefix and its secret."""
    secret = MARK + secrets.token_hex(4) + secrets.token_urlsafe(32)
    number = connection.execute(
        insert(tokens)
        .values(
            prefix=secret[:_PREFIX],
            digest=digest(secret),
            role=view.role,
            cluster=view.cluster,
            node=view.node,
            scopes=msgspec.json.encode(view.scopes).decode(),
            label=view.label,
            created_at=at,
            created_by=view.created_by,
            expires_at=view.expires_at,
        )
        .returning(tokens.c.id)
    ).scalar_one()
    return msgspec.structs.replace(view, id=number, prefix=secret[:_PREFIX], created_at=at), secret


def find(connection: Connection, secret: str, now: datetime) -> TokenView | None:
    """The token with this secret, unless it is unknown, revoked or expired."""
    if len(secret) != LENGTH or not secret.isascii():
        return None
    row = connection.execute(select(tokens).where(tokens.c.prefix == secret[:_PREFIX])).first()
    if not hmac.compare_digest(row.digest if row else digest(""), digest(secret)):
        return None
    if row is None or row.revoked_at is not None or (row.expires_at is not None and row.expires_at <= now):
        return None
    return _view(row)


def listed(connection: Connection, after: int | None, limit: int) -> list[TokenView]:
    """Tokens in the order of their making, without secrets."""
    query = select(tokens).order_by(tokens.c.id).limit(limit)
    return [_view(r) for r in connection.execute(query.where(tokens.c.id > after) if after is not None else query)]


def revoke(connection: Connection, at: datetime, number: int) -> bool:
    """End a token; False where there is none of this number that was still good."""
    where = (tokens.c.id == number, tokens.c.revoked_at.is_(None))
    return connection.execute(update(tokens).where(*where).values(revoked_at=at)).rowcount > 0


def _view(row: Row[Any]) -> TokenView:
    return TokenView(
        id=row.id,
        prefix=row.prefix,
        role=row.role,
        cluster=row.cluster,
        node=row.node,
        scopes=tuple(msgspec.json.decode(row.scopes, type=list[str])),
        label=row.label,
        created_at=row.created_at,
        created_by=row.created_by,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )
