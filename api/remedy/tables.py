"""Every remedy from plan to end: a server that starts anew finds here what it had begun and what it had not."""

from __future__ import annotations

from sqlalchemy import JSON, Boolean, Column, Index, String, Table, Text

from api.store.base import metadata
from api.store.types import Serial, UtcTime

remedies = Table(
    "remedies",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("cluster", String(128), nullable=False),
    Column("node", String(128), nullable=False),
    Column("action", String(80), nullable=False),
    Column("codes", JSON, nullable=False),
    Column("gpus", JSON, nullable=False),
    Column("actor", String(128), nullable=False),
    Column("automatic", Boolean, nullable=False),
    Column("token", String(32), nullable=False),
    Column("state", String(16), nullable=False),
    Column("why", Text, nullable=False),
    Column("order_id", String(64), nullable=False),
    Column("boot_id", String(64), nullable=False),
    Column("open", Boolean, nullable=False),
    # The node's name while it is open: the database itself holds that a node has one remedy at a time.
    Column("slot", String(128)),
    Column("created_at", UtcTime, nullable=False),
    Column("started_at", UtcTime),
    Column("changed_at", UtcTime, nullable=False),
    Index("uq_remedies_slot", "cluster", "slot", unique=True),
    Index("ix_remedies_node", "cluster", "node", "changed_at"),
    Index("ix_remedies_created_at", "created_at"),
)
