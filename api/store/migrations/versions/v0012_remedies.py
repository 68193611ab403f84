"""What was tried on drained nodes, from plan to end.

Written out, so that it stays what it was when the tables change.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from api.store.types import Serial

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "remedies",
        sa.Column("id", Serial, primary_key=True),
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("node", sa.String(length=128), nullable=False),
        sa.Column("action", sa.String(length=80), nullable=False),
        sa.Column("codes", sa.JSON(), nullable=False),
        sa.Column("gpus", sa.JSON(), nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=False),
        sa.Column("automatic", sa.Boolean(), nullable=False),
        sa.Column("token", sa.String(length=32), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("order_id", sa.String(length=64), nullable=False),
        sa.Column("boot_id", sa.String(length=64), nullable=False),
        sa.Column("open", sa.Boolean(), nullable=False),
        sa.Column("slot", sa.String(length=128)),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("started_at", TIME),
        sa.Column("changed_at", TIME, nullable=False),
    )
    op.create_index("uq_remedies_slot", "remedies", ["cluster", "slot"], unique=True)
    op.create_index("ix_remedies_node", "remedies", ["cluster", "node", "changed_at"])
    op.create_index("ix_remedies_created_at", "remedies", ["created_at"])


def downgrade() -> None:
    """Drop it."""
    op.drop_table("remedies")
