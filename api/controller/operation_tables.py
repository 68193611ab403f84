"""What a person did to a list of nodes in one go is one operation, kept with what stood there before."""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, String, Table, Text

from api.store.base import metadata
from api.store.types import Serial, UtcTime

# verb: drain, resume or undo; undoes: the operation that an undo was for; undone_by: the undo that changed something.
operations = Table(
    "operations",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("cluster", String(128), nullable=False),
    Column("actor", String(128), nullable=False),
    Column("verb", String(16), nullable=False),
    Column("nodes", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("undoes", Serial),
    Column("undone_by", Serial),
    Index("ix_operations_at", "cluster", "at"),
)

# drain: the drain record that was made or ended; before: state and reason that Slurm held when it was judged.
operation_nodes = Table(
    "operation_nodes",
    metadata,
    Column("operation", Serial, primary_key=True, autoincrement=False),
    Column("node", String(128), primary_key=True),
    Column("place", Integer, nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("why", Text, nullable=False),
    Column("before", Text, nullable=False),
    Column("drain", Serial),
    Index("ix_operation_nodes_node", "node"),
)
