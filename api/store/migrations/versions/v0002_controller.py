"""The controller's memory of its drains and permits.

Written out, so that it stays what it was when the tables change.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TABLES = (
    "permits",
    "drains",
)


def upgrade() -> None:
    """Make the tables."""
    _drains()
    _permits()


def downgrade() -> None:
    """Drop them, those first that point at others."""
    for table in TABLES:
        op.drop_table(table)


def _drains() -> None:
    op.create_table(
        "drains",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("node", sa.String(length=128), nullable=False),
        sa.Column("owner", sa.String(length=32), nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=False),
        sa.Column("codes", sa.JSON(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("token", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("step", sa.String(length=16), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("boot_id", sa.String(length=64), nullable=False),
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.Column("order_id", sa.String(length=64), nullable=True),
        sa.Column("order_at", TIME, nullable=True),
        sa.Column("permit", sa.String(length=64), nullable=True),
        sa.Column("job", sa.String(length=64), nullable=True),
        sa.Column("resume_by", sa.String(length=128), nullable=True),
        sa.Column("open", sa.Boolean(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("changed_at", TIME, nullable=False),
        sa.Column("closed_at", TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_drains"),
        sa.UniqueConstraint("token", name="uq_drains_token"),
    )
    op.create_index("ix_drains_created_at", "drains", ["created_at"], unique=False)
    op.create_index("ix_drains_open", "drains", ["cluster", "node", "open"], unique=False)


def _permits() -> None:
    op.create_table(
        "permits",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("node", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("job", sa.String(length=64), nullable=False),
        sa.Column("codes", sa.JSON(), nullable=False),
        sa.Column("granted", sa.Boolean(), nullable=False),
        sa.Column("drained", sa.Boolean(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
        sa.Column("used_at", TIME, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_permits"),
    )
    op.create_index("ix_permits_expires_at", "permits", ["expires_at"], unique=False)
    op.create_index("ix_permits_job", "permits", ["cluster", "node", "job"], unique=False)
