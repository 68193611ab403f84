"""What agents report, and what people do about it.

Written out, so that it stays what it was when the tables change.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TABLES = (
    "incident_notes",
    "tokens",
    "reports",
    "node_status",
    "inventory",
    "incidents",
    "findings",
    "changes",
    "audit",
    "agents",
)


def upgrade() -> None:
    """Make the tables."""
    _agents()
    _audit()
    _changes()
    _findings()
    _incidents()
    _inventory()
    _node_status()
    _reports()
    _tokens()
    _incident_notes()
    if op.get_bind().dialect.name == "sqlite":
        _hold_audit()


def downgrade() -> None:
    """Drop them, those first that point at others."""
    for table in TABLES:
        op.drop_table(table)


def _hold_audit() -> None:
    """Let the database itself refuse to change or lose a line of the audit."""
    for verb in ("UPDATE", "DELETE"):
        op.execute(
            f"CREATE TRIGGER audit_no_{verb.lower()} BEFORE {verb} ON audit "
            "BEGIN SELECT RAISE(ABORT, 'the audit only grows'); END"
        )


def _agents() -> None:
    op.create_table(
        "agents",
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("node", sa.String(length=128), nullable=False),
        sa.Column("incarnation", sa.String(length=64), nullable=False),
        sa.Column("last_sequence", SERIAL, nullable=False),
        sa.Column("first_seen", TIME, nullable=False),
        sa.Column("last_seen", TIME, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "node", "incarnation", name="pk_agents"),
    )


def _audit() -> None:
    op.create_table(
        "audit",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("subject", sa.String(length=256), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
    )
    op.create_index("ix_audit_at", "audit", ["at"], unique=False)


def _changes() -> None:
    op.create_table(
        "changes",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("node", sa.String(length=128), nullable=False),
        sa.Column("check_name", sa.String(length=64), nullable=False),
        sa.Column("target", sa.String(length=128), nullable=False),
        sa.Column("old_status", sa.String(length=16), nullable=True),
        sa.Column("old_code", sa.String(length=64), nullable=True),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("code", sa.String(length=64), nullable=False),
        sa.Column("blame", sa.String(length=16), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("observed_at", TIME, nullable=True),
        sa.Column("at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_changes"),
    )
    op.create_index("ix_changes_cluster_node_id", "changes", ["cluster", "node", "id"], unique=False)


def _findings() -> None:
    op.create_table(
        "findings",
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("node", sa.String(length=128), nullable=False),
        sa.Column("check_name", sa.String(length=64), nullable=False),
        sa.Column("target", sa.String(length=128), nullable=False),
        sa.Column("code", sa.String(length=64), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("blame", sa.String(length=16), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("observed_at", TIME, nullable=True),
        sa.Column("since", TIME, nullable=True),
        sa.Column("seen", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "node", "check_name", "target", "code", name="pk_findings"),
    )
    op.create_index(
        "ix_findings_not_ok",
        "findings",
        ["cluster", "node", "check_name"],
        unique=False,
        sqlite_where=sa.text("status IN ('fail', 'warn', 'unknown')"),
        postgresql_where=sa.text("status IN ('fail', 'warn', 'unknown')"),
    )


def _incidents() -> None:
    op.create_table(
        "incidents",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("node", sa.String(length=128), nullable=False),
        sa.Column("code", sa.String(length=64), nullable=False),
        sa.Column("target", sa.String(length=128), nullable=False),
        sa.Column("check_name", sa.String(length=64), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("first_seen", TIME, nullable=False),
        sa.Column("last_seen", TIME, nullable=False),
        sa.Column("times_opened", sa.Integer(), nullable=False),
        sa.Column("closed_at", TIME, nullable=True),
        sa.Column("closed_why", sa.Text(), nullable=False),
        sa.Column("acknowledged_at", TIME, nullable=True),
        sa.Column("acknowledged_by", sa.String(length=128), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_incidents"),
    )
    op.create_index("ix_incidents_cluster_node", "incidents", ["cluster", "node"], unique=False)
    op.create_index(
        "uq_incidents_open",
        "incidents",
        ["cluster", "node", "code", "target"],
        unique=True,
        sqlite_where=sa.text("closed_at IS NULL"),
        postgresql_where=sa.text("closed_at IS NULL"),
    )


def _inventory() -> None:
    op.create_table(
        "inventory",
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("node", sa.String(length=128), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.Column("recorded_at", TIME, nullable=False),
        sa.Column("recorded_by", sa.String(length=128), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "node", name="pk_inventory"),
    )


def _node_status() -> None:
    op.create_table(
        "node_status",
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("node", sa.String(length=128), nullable=False),
        sa.Column("verdict", sa.String(length=16), nullable=False),
        sa.Column("reported_verdict", sa.String(length=16), nullable=False),
        sa.Column("wanted", sa.String(length=16), nullable=False),
        sa.Column("summary", sa.Text(), nullable=False),
        sa.Column("fail", sa.Integer(), nullable=False),
        sa.Column("warn", sa.Integer(), nullable=False),
        sa.Column("unknown", sa.Integer(), nullable=False),
        sa.Column("ok", sa.Integer(), nullable=False),
        sa.Column("skipped", sa.Integer(), nullable=False),
        sa.Column("incarnation", sa.String(length=64), nullable=False),
        sa.Column("boot_id", sa.String(length=64), nullable=False),
        sa.Column("agent_version", sa.String(length=64), nullable=False),
        sa.Column("policy_version", sa.String(length=256), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("facts", sa.Text(), nullable=True),
        sa.Column("wedged_lanes", sa.Text(), nullable=False),
        sa.Column("outbox_waiting", sa.Integer(), nullable=False),
        sa.Column("first_seen", TIME, nullable=False),
        sa.Column("last_contact", TIME, nullable=False),
        sa.Column("last_report", TIME, nullable=True),
        sa.PrimaryKeyConstraint("cluster", "node", name="pk_node_status"),
    )
    op.create_index("ix_node_status_node", "node_status", ["node"], unique=False)


def _reports() -> None:
    op.create_table(
        "reports",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("node", sa.String(length=128), nullable=False),
        sa.Column("incarnation", sa.String(length=64), nullable=False),
        sa.Column("sequence", SERIAL, nullable=False),
        sa.Column("occasion", sa.String(length=16), nullable=False),
        sa.Column("started_at", TIME, nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("received_at", TIME, nullable=False),
        sa.Column("boot_id", sa.String(length=64), nullable=False),
        sa.Column("job_id", SERIAL, nullable=True),
        sa.Column("attempt", sa.String(length=32), nullable=True),
        sa.Column("verdict", sa.String(length=16), nullable=True),
        sa.Column("wanted", sa.String(length=16), nullable=True),
        sa.Column("allowed", sa.String(length=16), nullable=True),
        sa.Column("job", sa.Text(), nullable=True),
        sa.Column("decision", sa.Text(), nullable=True),
        sa.Column("findings", sa.Text(), nullable=False),
        sa.Column("notes", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_reports"),
        sa.UniqueConstraint(
            "cluster", "node", "incarnation", "sequence", name="uq_reports_cluster_node_incarnation_sequence"
        ),
    )
    op.create_index("ix_reports_cluster_job_id", "reports", ["cluster", "job_id"], unique=False)
    op.create_index("ix_reports_cluster_node_id", "reports", ["cluster", "node", "id"], unique=False)


def _tokens() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("prefix", sa.String(length=16), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("cluster", sa.String(length=128), nullable=True),
        sa.Column("node", sa.String(length=128), nullable=True),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("label", sa.String(length=128), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("created_by", sa.String(length=128), nullable=False),
        sa.Column("expires_at", TIME, nullable=True),
        sa.Column("revoked_at", TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("prefix", name="uq_tokens_prefix"),
    )


def _incident_notes() -> None:
    op.create_table(
        "incident_notes",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("incident_id", SERIAL, nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["incident_id"], ["incidents.id"], name="fk_incident_notes_incident_id"),
        sa.PrimaryKeyConstraint("id", name="pk_incident_notes"),
    )
    op.create_index("ix_incident_notes_incident_id", "incident_notes", ["incident_id"], unique=False)
