"""What people did to lists of nodes in one go, so that it can be undone.

Written out, so that it stays what it was when the tables change.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "operations",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=False),
        sa.Column("verb", sa.String(length=16), nullable=False),
        sa.Column("nodes", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("undoes", SERIAL),
        sa.Column("undone_by", SERIAL),
    )
    op.create_index("ix_operations_at", "operations", ["cluster", "at"])
    op.create_table(
        "operation_nodes",
        sa.Column("operation", SERIAL, nullable=False, autoincrement=False),
        sa.Column("node", sa.String(length=128), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("outcome", sa.String(length=16), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("drain", SERIAL),
        sa.PrimaryKeyConstraint("operation", "node"),
    )
    op.create_index("ix_operation_nodes_node", "operation_nodes", ["node"])


def downgrade() -> None:
    """Drop them."""
    op.drop_table("operation_nodes")
    op.drop_table("operations")
