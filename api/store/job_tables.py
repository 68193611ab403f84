"""Every start of a job on a node is one row with how it was answered, and every fault that began meanwhile another."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Index, Integer, String, Table, Text

from api.store.base import metadata
from api.store.types import Serial, UtcTime

# outcome: vetted, refused, or the cause why the job began without a whole answer.
# fate: what Slurm did with a refused attempt: waiting, held, cancelled, restarted; empty while it is not known.
starts = Table(
    "starts",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("cluster", String(128), nullable=False),
    Column("node", String(128), nullable=False),
    Column("job_id", Serial, nullable=False),
    Column("attempt", String(32), nullable=False),
    Column("nodes", Integer),
    Column("outcome", String(32), nullable=False),
    Column("detail", Text, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("ended_at", UtcTime),
    Column("fate", String(16), nullable=False, server_default=""),
    Column("fate_detail", Text, nullable=False, server_default=""),
    Column("fate_until", UtcTime),
    Index("ix_starts_job", "cluster", "job_id"),
    Index("ix_starts_node", "cluster", "node", "at"),
    Index("ix_starts_at", "at"),
)

attributions = Table(
    "attributions",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("cluster", String(128), nullable=False),
    Column("node", String(128), nullable=False),
    Column("job_id", Serial, nullable=False),
    Column("attempt", String(32), nullable=False),
    Column("uid", Serial),
    Column("gpu_minors", Text, nullable=False),
    Column("check_name", String(64), nullable=False),
    Column("code", String(64), nullable=False),
    Column("target", String(128), nullable=False),
    Column("status", String(16), nullable=False),
    Column("blame", String(16)),
    Column("message", Text, nullable=False),
    Column("shared", Boolean, nullable=False),
    Column("began_at", UtcTime, nullable=False),
    Column("at", UtcTime, nullable=False),
    Index("ix_attributions_job", "cluster", "job_id"),
    Index("ix_attributions_node", "cluster", "node", "at"),
    Index("ix_attributions_at", "at"),
)

# Who excludes which node by hand on which day; the user's number serves to count users and is shown to nobody.
exclusions = Table(
    "exclusions",
    metadata,
    Column("cluster", String(128), primary_key=True),
    Column("node", String(128), primary_key=True),
    Column("uid", Serial, primary_key=True, autoincrement=False),
    Column("day", String(10), primary_key=True),
    Column("seen_at", UtcTime, nullable=False),
    Index("ix_exclusions_seen_at", "seen_at"),
)
