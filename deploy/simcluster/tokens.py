"""A simulated cluster's tokens are made straight in its database, as `nodevet token create` does."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from api.store.store import Store
from api.store.views import TokenView


def write(store: Store, path: Path, role: str, cluster: str | None = None, node: str | None = None) -> None:
    """Make a token, for a node or for all, and write it where only its owner reads it."""
    view = TokenView(
        id=0,
        prefix="",
        role=role,
        cluster=cluster,
        node=node,
        scopes=(),
        label=f"simulated {node or role}",
        created_at=datetime.now(timezone.utc),
        created_by="simcluster",
        expires_at=None,
        revoked_at=None,
    )
    path.touch(mode=0o600)
    path.write_text(store.create_token(view)[1] + "\n")
