"""Where each node stands and stood, and which nodes are to be looked at as a whole."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, String, Table, Text

from api.store.base import metadata
from api.store.types import Serial, UtcTime

NAME = 128

node_service = Table(
    "node_service",
    metadata,
    Column("cluster", String(NAME), primary_key=True),
    Column("node", String(NAME), primary_key=True),
    Column("state", String(16), nullable=False),
    Column("since", UtcTime, nullable=False),
    Column("why", Text, nullable=False),
    Column("evidence", Text, nullable=False),
    Column("hands_off", String(64), nullable=False, server_default=""),
    Column("boot_id", String(64), nullable=False, server_default=""),
    Column("absent_since", UtcTime),
)

service_moves = Table(
    "service_moves",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("cluster", String(NAME), nullable=False),
    Column("node", String(NAME), nullable=False),
    Column("old", String(16), nullable=False),
    Column("new", String(16), nullable=False),
    Column("why", Text, nullable=False),
    Column("evidence", Text, nullable=False),
    Column("at", UtcTime, nullable=False),
    Index("ix_service_moves_node", "cluster", "node", "id"),
    Index("ix_service_moves_at", "at"),
)

node_looks = Table(
    "node_looks",
    metadata,
    Column("cluster", String(NAME), primary_key=True),
    Column("node", String(NAME), primary_key=True),
    Column("kind", String(16), nullable=False),
    Column("why", Text, nullable=False),
    Column("actor", String(NAME), nullable=False),
    Column("wanted_at", UtcTime, nullable=False),
    Column("order_id", String(64)),
    Column("asked_at", UtcTime),
    Column("done_at", UtcTime),
    Column("result", String(16), nullable=False, server_default=""),
    Column("detail", Text, nullable=False, server_default=""),
    Index("ix_node_looks_open", "cluster", "done_at"),
)

trials = Table(
    "trials",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("cluster", String(NAME), nullable=False),
    Column("node", String(NAME), nullable=False),
    Column("drain_id", BigInteger, nullable=False),
    Column("reservation", String(64), nullable=False),
    Column("step", String(16), nullable=False),
    Column("job_id", BigInteger),
    Column("order_id", String(64)),
    Column("why", Text, nullable=False, server_default=""),
    Column("bad", String(8), nullable=False, server_default=""),
    Column("created_at", UtcTime, nullable=False),
    Column("step_at", UtcTime, nullable=False),
    Column("ended_at", UtcTime),
    Index("ix_trials_open", "cluster", "ended_at"),
)
