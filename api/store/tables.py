"""What agents report lies in three levels: one row a node, its current findings, the history of changes.

Every row that speaks of a node is keyed or indexed by (cluster, node). JSON lies in text columns, written and read
by msgspec only.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from api.store.base import metadata
from api.store.types import Serial, UtcTime

NAME = 128

node_status = Table(
    "node_status",
    metadata,
    Column("cluster", String(NAME), primary_key=True),
    Column("node", String(NAME), primary_key=True),
    Column("verdict", String(16), nullable=False),
    Column("reported_verdict", String(16), nullable=False),
    Column("wanted", String(16), nullable=False),
    Column("summary", Text, nullable=False),
    Column("fail", Integer, nullable=False),
    Column("warn", Integer, nullable=False),
    Column("unknown", Integer, nullable=False),
    Column("ok", Integer, nullable=False),
    Column("skipped", Integer, nullable=False),
    Column("incarnation", String(64), nullable=False),
    Column("boot_id", String(64), nullable=False),
    Column("agent_version", String(64), nullable=False),
    Column("policy_version", String(256), nullable=False),
    Column("simulated", Boolean, nullable=False),
    Column("facts", Text),
    Column("wedged_lanes", Text, nullable=False),
    Column("outbox_waiting", Integer, nullable=False),
    Column("first_seen", UtcTime, nullable=False),
    Column("last_contact", UtcTime, nullable=False),
    Column("last_report", UtcTime),
)
Index("ix_node_status_node", node_status.c.node)

findings = Table(
    "findings",
    metadata,
    Column("cluster", String(NAME), primary_key=True),
    Column("node", String(NAME), primary_key=True),
    Column("check_name", String(64), primary_key=True),
    Column("target", String(NAME), primary_key=True),
    Column("code", String(64), primary_key=True),
    Column("status", String(16), nullable=False),
    Column("blame", String(16)),
    Column("message", Text, nullable=False),
    Column("evidence", Text, nullable=False),
    Column("observed_at", UtcTime),
    Column("since", UtcTime),
    Column("seen", Integer, nullable=False),
)
_NOT_OK = text("status IN ('fail', 'warn', 'unknown')")
Index(
    "ix_findings_not_ok",
    findings.c.cluster,
    findings.c.node,
    findings.c.check_name,
    sqlite_where=_NOT_OK,
    postgresql_where=_NOT_OK,
)

changes = Table(
    "changes",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("cluster", String(NAME), nullable=False),
    Column("node", String(NAME), nullable=False),
    Column("check_name", String(64), nullable=False),
    Column("target", String(NAME), nullable=False),
    Column("old_status", String(16)),
    Column("old_code", String(64)),
    Column("status", String(16), nullable=False),
    Column("code", String(64), nullable=False),
    Column("blame", String(16)),
    Column("message", Text, nullable=False),
    Column("observed_at", UtcTime),
    Column("at", UtcTime, nullable=False),
    Index("ix_changes_cluster_node_id", "cluster", "node", "id"),
    Index("ix_changes_code_at", "code", "at"),
)

reports = Table(
    "reports",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("cluster", String(NAME), nullable=False),
    Column("node", String(NAME), nullable=False),
    Column("incarnation", String(64), nullable=False),
    Column("sequence", Serial, nullable=False),
    Column("occasion", String(16), nullable=False),
    Column("started_at", UtcTime, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("received_at", UtcTime, nullable=False),
    Column("boot_id", String(64), nullable=False),
    Column("job_id", Serial),
    Column("attempt", String(32)),
    Column("verdict", String(16)),
    Column("wanted", String(16)),
    Column("allowed", String(16)),
    Column("job", Text),
    Column("decision", Text),
    Column("findings", Text, nullable=False),
    Column("notes", Text, nullable=False),
    UniqueConstraint("cluster", "node", "incarnation", "sequence"),
    Index("ix_reports_cluster_job_id", "cluster", "job_id"),
    Index("ix_reports_cluster_node_id", "cluster", "node", "id"),
)

agents = Table(
    "agents",
    metadata,
    Column("cluster", String(NAME), primary_key=True),
    Column("node", String(NAME), primary_key=True),
    Column("incarnation", String(64), primary_key=True),
    Column("last_sequence", Serial, nullable=False),
    Column("first_seen", UtcTime, nullable=False),
    Column("last_seen", UtcTime, nullable=False),
)

inventory = Table(
    "inventory",
    metadata,
    Column("cluster", String(NAME), primary_key=True),
    Column("node", String(NAME), primary_key=True),
    Column("facts", Text, nullable=False),
    Column("recorded_at", UtcTime, nullable=False),
    Column("recorded_by", String(NAME), nullable=False),
)

incidents = Table(
    "incidents",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("cluster", String(NAME), nullable=False),
    Column("node", String(NAME), nullable=False),
    Column("code", String(64), nullable=False),
    Column("target", String(NAME), nullable=False),
    Column("check_name", String(64), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("message", Text, nullable=False),
    Column("first_seen", UtcTime, nullable=False),
    Column("last_seen", UtcTime, nullable=False),
    Column("times_opened", Integer, nullable=False),
    Column("closed_at", UtcTime),
    Column("closed_why", Text, nullable=False),
    Column("acknowledged_at", UtcTime),
    Column("acknowledged_by", String(NAME)),
    Index("ix_incidents_cluster_node", "cluster", "node"),
)
_OPEN = text("closed_at IS NULL")
# The database itself holds that one problem is open once.
Index(
    "uq_incidents_open",
    incidents.c.cluster,
    incidents.c.node,
    incidents.c.code,
    incidents.c.target,
    unique=True,
    sqlite_where=_OPEN,
    postgresql_where=_OPEN,
)

incident_notes = Table(
    "incident_notes",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("incident_id", Serial, ForeignKey("incidents.id"), nullable=False, index=True),
    Column("at", UtcTime, nullable=False),
    Column("actor", String(NAME), nullable=False),
    Column("note", Text, nullable=False),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("at", UtcTime, nullable=False, index=True),
    Column("actor", String(NAME), nullable=False),
    Column("action", String(64), nullable=False),
    Column("subject", String(256), nullable=False),
    Column("detail", Text, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", Serial, primary_key=True),
    Column("prefix", String(16), nullable=False, unique=True),
    Column("digest", String(64), nullable=False),
    Column("role", String(16), nullable=False),
    Column("cluster", String(NAME)),
    Column("node", String(NAME)),
    Column("scopes", Text, nullable=False),
    Column("label", String(NAME), nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("created_by", String(NAME), nullable=False),
    Column("expires_at", UtcTime),
    Column("revoked_at", UtcTime),
)

# A release without a count of restarts (20.11) has this one.
NO_COUNT = -1

job_facts = Table(
    "job_facts",
    metadata,
    Column("cluster", String(NAME), primary_key=True),
    Column("job_id", BigInteger, primary_key=True, autoincrement=False),
    Column("restart_count", Integer, primary_key=True, autoincrement=False),
    Column("array_job_id", BigInteger),
    Column("array_task_id", BigInteger),
    Column("het_job_id", BigInteger),
    Column("het_offset", Integer),
    Column("partition_name", String(NAME)),
    Column("nodelist", Text),
    Column("started_at", UtcTime),
    Column("ended_at", UtcTime),
    Column("exit_status", BigInteger),
    Column("seen_at", UtcTime, nullable=False),
    Column("uid", BigInteger),
    Index("ix_job_facts_array", "cluster", "array_job_id"),
    Index("ix_job_facts_ended_at", "ended_at"),
    Index("ix_job_facts_seen_at", "seen_at"),
)
