"""What became of a node over time: boots, drivers, parts, in and out of service; and changes found by code.

Written out, so that it stays what it was when the tables change.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the tables and the index."""
    op.create_table(
        "node_events",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("node", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("value", sa.String(length=128), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("at", TIME, nullable=False),
    )
    op.create_index("ix_node_events_node", "node_events", ["cluster", "node", "kind", "id"])
    op.create_index("ix_node_events_value", "node_events", ["kind", "value", "at"])
    op.create_index("ix_node_events_at", "node_events", ["at"])
    op.create_table(
        "node_parts",
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("node", sa.String(length=128), nullable=False),
        sa.Column("part", sa.String(length=128), nullable=False),
        sa.Column("first_seen", TIME, nullable=False),
        sa.Column("last_seen", TIME, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "node", "part"),
    )
    op.create_index("ix_node_parts_part", "node_parts", ["part"])
    op.create_index("ix_changes_code_at", "changes", ["code", "at"])


def downgrade() -> None:
    """Drop them."""
    op.drop_index("ix_changes_code_at", "changes")
    op.drop_table("node_parts")
    op.drop_table("node_events")
