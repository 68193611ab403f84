"""What the webhook has been told, so that a server that starts anew tells nothing twice and forgets nothing."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, String, Table

from api.store.base import metadata
from api.store.types import UtcTime

alerts_told = Table(
    "alerts_told",
    metadata,
    Column("incident_id", BigInteger, primary_key=True, autoincrement=False),
    Column("times_opened", Integer, primary_key=True, autoincrement=False),
    Column("phase", String(8), primary_key=True),
    Column("claimed_at", UtcTime, nullable=False),
    Column("told", Boolean, nullable=False),
    Index("ix_alerts_told_claimed_at", "claimed_at"),
)
