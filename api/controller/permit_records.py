"""Permits and leases are written down before they are answered, so that a repeated question gets the same answer."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from sqlalchemy import RowMapping, delete, insert, select, update

from api.controller.tables import permits
from api.store.database import Database


@dataclass(frozen=True, slots=True)
class NewPermit:
    """An answer to a permit request (``direct``) or a lease."""

    cluster: str
    node: str
    kind: Literal["direct", "lease"]
    codes: tuple[str, ...]
    granted: bool
    why: str
    expires_at: datetime
    drained: bool = False
    job: str = ""


class PermitRecords:
    """The table of permits, one short transaction a call."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def add_permit(self, new: NewPermit, now: datetime) -> str:
        """Write down an answer to a permit request, or a lease; returns its id."""
        made = secrets.token_urlsafe(12)
        used = now if new.kind == "direct" and new.granted else None
        values = {name: getattr(new, name) for name in NewPermit.__dataclass_fields__} | {"codes": list(new.codes)}
        with self._db.begin() as connection:
            connection.execute(insert(permits).values(id=made, created_at=now, used_at=used, **values))
        return made

    def permits_of(self, cluster: str, node: str, since: datetime) -> list[RowMapping]:
        """Granted permits and leases of a node since a time, newest first."""
        query = (
            select(permits)
            .where(permits.c.cluster == cluster, permits.c.node == node, permits.c.granted.is_(True))
            .where(permits.c.created_at >= since)
            .order_by(permits.c.created_at.desc())
        )
        with self._db.read() as connection:
            return list(connection.execute(query).mappings())

    def live_leases(self, cluster: str, now: datetime) -> list[RowMapping]:
        """Leases that are neither used nor expired."""
        query = select(permits).where(
            permits.c.cluster == cluster,
            permits.c.kind == "lease",
            permits.c.used_at.is_(None),
            permits.c.expires_at > now,
        )
        with self._db.read() as connection:
            return list(connection.execute(query).mappings())

    def spend_lease(self, cluster: str, node: str, permit: str, job: str, now: datetime) -> bool:
        """Mark a lease of this node as spent on a job; False for another's, or one spent on another job."""
        mine = (permits.c.id == permit, permits.c.kind == "lease", permits.c.cluster == cluster, permits.c.node == node)
        with self._db.begin() as connection:
            connection.execute(update(permits).where(*mine, permits.c.used_at.is_(None)).values(used_at=now, job=job))
            found = connection.execute(select(permits.c.job).where(*mine)).first()
        return found is not None and found.job == job

    def end_leases(self, ids: Collection[str], now: datetime) -> None:
        """Leases that nobody can use any more are not promised any more; one that was used meanwhile stays used."""
        with self._db.begin() as connection:
            mine = (permits.c.id.in_(ids), permits.c.kind == "lease", permits.c.used_at.is_(None))
            connection.execute(update(permits).where(*mine).values(expires_at=now))

    def forget_permits(self, before: datetime) -> None:
        """Delete permits and leases that ended before a time."""
        with self._db.begin() as connection:
            connection.execute(delete(permits).where(permits.c.expires_at < before))
