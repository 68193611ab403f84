"""Where nodes stand and stood, looks that are owed, repairs under a ticket, and clean rounds since when.

Written out, so that it stays what it was when the tables change.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _name() -> sa.String:
    return sa.String(length=128)


def upgrade() -> None:
    """Make the tables and columns."""
    op.create_table(
        "node_service",
        sa.Column("cluster", _name(), nullable=False),
        sa.Column("node", _name(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("since", TIME, nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("hands_off", sa.String(length=64), nullable=False, server_default=""),
        sa.Column("boot_id", sa.String(length=64), nullable=False, server_default=""),
        sa.Column("absent_since", TIME),
        sa.PrimaryKeyConstraint("cluster", "node"),
    )
    op.create_table(
        "service_moves",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("cluster", _name(), nullable=False),
        sa.Column("node", _name(), nullable=False),
        sa.Column("old", sa.String(length=16), nullable=False),
        sa.Column("new", sa.String(length=16), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("evidence", sa.Text(), nullable=False),
        sa.Column("at", TIME, nullable=False),
    )
    op.create_index("ix_service_moves_node", "service_moves", ["cluster", "node", "id"])
    op.create_index("ix_service_moves_at", "service_moves", ["at"])
    op.create_table(
        "node_looks",
        sa.Column("cluster", _name(), nullable=False),
        sa.Column("node", _name(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("actor", _name(), nullable=False),
        sa.Column("wanted_at", TIME, nullable=False),
        sa.Column("order_id", sa.String(length=64)),
        sa.Column("asked_at", TIME),
        sa.Column("done_at", TIME),
        sa.Column("result", sa.String(length=16), nullable=False, server_default=""),
        sa.Column("detail", sa.Text(), nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("cluster", "node"),
    )
    op.create_index("ix_node_looks_open", "node_looks", ["cluster", "done_at"])
    op.add_column("pauses", sa.Column("ticket", _name(), nullable=False, server_default=""))
    op.add_column("drains", sa.Column("clean_since", TIME))


def downgrade() -> None:
    """Drop them."""
    op.drop_column("drains", "clean_since")
    op.drop_column("pauses", "ticket")
    op.drop_index("ix_node_looks_open", "node_looks")
    op.drop_table("node_looks")
    op.drop_index("ix_service_moves_at", "service_moves")
    op.drop_index("ix_service_moves_node", "service_moves")
    op.drop_table("service_moves")
    op.drop_table("node_service")
