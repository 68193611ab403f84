"""A token is described completely before it is made: role, node, scopes and end fit together."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Literal

import msgspec

from api.auth.principal import Role
from api.problems import Unacceptable
from api.store.store import utc_now
from api.store.views import TokenView

_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


class Grant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a new token may do; an agent's is bound to its node."""

    role: Role
    label: Annotated[str, msgspec.Meta(max_length=64)] = ""
    cluster: str | None = None
    node: str | None = None
    scopes: Annotated[
        tuple[Literal["read", "jobs", "drain", "order", "ack", "admin"], ...], msgspec.Meta(max_length=6)
    ] = ()
    expires_at: datetime | None = None


def token_of(grant: Grant, actor: str) -> TokenView:
    """The token to make, or Unacceptable: only an agent's is bound to a node, and it always is."""
    role, cluster, node, expires_at = grant.role, grant.cluster, grant.node, grant.expires_at
    if role == "agent" and (cluster is None or node is None):
        raise Unacceptable("an agent's token needs cluster and node")
    if role != "agent" and (cluster is not None or node is not None):
        raise Unacceptable(f"role {role} is not bound to a node")
    if role == "agent" and grant.scopes:
        raise Unacceptable("an agent's token has no scopes")
    for name in (cluster, node):
        if name is not None and _NODE.fullmatch(name) is None:
            raise Unacceptable(f"name {name[:64]!r} is not letters, digits, dots, dashes and underscores")
    if expires_at is not None and (expires_at.tzinfo is None or expires_at <= utc_now()):
        raise Unacceptable(f"expiry {expires_at} is not in the future, with a zone")
    return TokenView(
        id=0,
        prefix="",
        role=role,
        cluster=cluster,
        node=node,
        scopes=grant.scopes,
        label=grant.label or node or role,
        created_at=utc_now(),
        created_by=actor,
        expires_at=expires_at,
        revoked_at=None,
    )
