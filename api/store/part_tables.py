"""Which part stood in which slot of which node, since when and until when."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, String, Table

from api.store.base import metadata
from api.store.types import Serial, UtcTime

NAME = 128

# replaced: the row whose place this one took; looked: the swap has led to a look at the node.
part_slots = Table(
    "part_slots",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("cluster", String(NAME), nullable=False),
    Column("node", String(NAME), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("slot", String(NAME), nullable=False),
    Column("uuid", String(NAME), nullable=False),
    Column("serial", String(NAME), nullable=False),
    Column("model", String(NAME), nullable=False),
    Column("since", UtcTime, nullable=False),
    Column("until", UtcTime),
    Column("replaced", BigInteger),
    Column("looked", Boolean, nullable=False),
    Index("ix_part_slots_node", "cluster", "node", "kind", "slot"),
    Index("ix_part_slots_serial", "serial"),
    Index("ix_part_slots_uuid", "uuid"),
    Index("ix_part_slots_looked", "looked"),
)
