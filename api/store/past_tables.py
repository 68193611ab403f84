"""What became of a node over time beside its findings: boots, drivers, parts, and in and out of service in Slurm."""

from __future__ import annotations

from sqlalchemy import Column, Index, String, Table, Text

from api.store.base import metadata
from api.store.types import Serial, UtcTime

# kind: boot, driver, part_in, part_out (value: what there is since), slurm (value: out, reason where only that was
# edited, in, or why hands are off).
node_events = Table(
    "node_events",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("cluster", String(128), nullable=False),
    Column("node", String(128), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("value", String(128), nullable=False),
    Column("detail", Text, nullable=False),
    Column("at", UtcTime, nullable=False),
    Index("ix_node_events_node", "cluster", "node", "kind", "id"),
    Index("ix_node_events_value", "kind", "value", "at"),
    Index("ix_node_events_at", "at"),
)

# Which parts were ever seen in which node: a part that moved stands in two rows.
node_parts = Table(
    "node_parts",
    metadata,
    Column("cluster", String(128), primary_key=True),
    Column("node", String(128), primary_key=True),
    Column("part", String(128), primary_key=True),
    Column("first_seen", UtcTime, nullable=False),
    Column("last_seen", UtcTime, nullable=False),
    Index("ix_node_parts_part", "part"),
)
