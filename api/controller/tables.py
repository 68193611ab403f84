"""The controller's own memory: every drain from intent to end, every permit from grant to use, and who leads."""

from __future__ import annotations

from sqlalchemy import JSON, Boolean, Column, Index, Integer, String, Table, Text

from api.store.base import metadata
from api.store.types import Serial, UtcTime

drains = Table(
    "drains",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("cluster", String(128), nullable=False),
    Column("node", String(128), nullable=False),
    Column("owner", String(32), nullable=False),
    Column("actor", String(128), nullable=False),
    Column("codes", JSON, nullable=False),
    Column("checks", JSON, nullable=False, server_default="[]"),
    Column("reason", Text, nullable=False),
    Column("token", String(32), nullable=False, unique=True),
    Column("state", String(32), nullable=False),
    Column("step", String(16), nullable=False),
    Column("why", Text, nullable=False, default=""),
    Column("boot_id", String(64), nullable=False, default=""),
    Column("boot_seen", String(64), nullable=False, server_default=""),
    Column("rounds", Integer, nullable=False, default=0),
    Column("order_id", String(64)),
    Column("order_at", UtcTime),
    Column("permit", String(64)),
    Column("job", String(64)),
    Column("resume_by", String(128)),
    Column("gpus", JSON, nullable=False, server_default="[]"),
    Column("part", Text, nullable=False, server_default=""),
    Column("held", Text, nullable=False, server_default=""),
    Column("weight", Integer, nullable=False, server_default="1"),
    Column("probation_until", UtcTime),
    Column("clean_since", UtcTime),
    Column("slurm_boot", UtcTime),
    Column("reason_before", Text, nullable=False, server_default=""),
    Column("open", Boolean, nullable=False, default=True),
    Column("created_at", UtcTime, nullable=False),
    Column("changed_at", UtcTime, nullable=False),
    Column("closed_at", UtcTime),
    Index("ix_drains_open", "cluster", "node", "open"),
    Index("ix_drains_created_at", "created_at"),
)

controller_lease = Table(
    "controller_lease",
    metadata,
    Column("cluster", String(128), primary_key=True),
    Column("holder", String(128), nullable=False),
    Column("epoch", Integer, nullable=False),
    Column("taken_at", UtcTime, nullable=False),
    Column("used_at", UtcTime, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
)

permits = Table(
    "permits",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("cluster", String(128), nullable=False),
    Column("node", String(128), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("job", String(64), nullable=False, default=""),
    Column("codes", JSON, nullable=False),
    Column("granted", Boolean, nullable=False),
    Column("drained", Boolean, nullable=False, default=False),
    Column("why", Text, nullable=False, default=""),
    Column("created_at", UtcTime, nullable=False),
    Column("expires_at", UtcTime, nullable=False),
    Column("used_at", UtcTime),
    Index("ix_permits_job", "cluster", "node", "job"),
    Index("ix_permits_expires_at", "expires_at"),
)

pauses = Table(
    "pauses",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("cluster", String(128), nullable=False),
    Column("node", String(128), nullable=False),
    Column("until", UtcTime, nullable=False),
    Column("reason", Text, nullable=False),
    Column("actor", String(128), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("ended_at", UtcTime),
    Column("ended_by", String(128), nullable=False, server_default=""),
    Column("ticket", String(128), nullable=False, server_default=""),
    Index("ix_pauses_open", "cluster", "ended_at"),
)

silences = Table(
    "silences",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("cluster", String(128), nullable=False),
    Column("check_name", String(128), nullable=False, server_default=""),
    Column("node", String(128), nullable=False, server_default=""),
    Column("partition_name", String(128), nullable=False, server_default=""),
    Column("until", UtcTime, nullable=False),
    Column("reason", Text, nullable=False),
    Column("actor", String(128), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("ended_at", UtcTime),
    Column("ended_by", String(128), nullable=False, server_default=""),
    Index("ix_silences_open", "cluster", "ended_at"),
)

words = Table(
    "words",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("cluster", String(128), nullable=False),
    Column("node", String(128), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("code", String(64), nullable=False, server_default=""),
    Column("until", UtcTime, nullable=False),
    Column("reason", Text, nullable=False),
    Column("actor", String(128), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("ended_at", UtcTime),
    Column("ended_by", String(128), nullable=False, server_default=""),
    Index("ix_words_node", "cluster", "node", "kind"),
)
