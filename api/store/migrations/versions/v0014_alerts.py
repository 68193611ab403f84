"""What the webhook has been told.

Written out, so that it stays what it was when the tables change.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "alerts_told",
        sa.Column("incident_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("times_opened", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("phase", sa.String(length=8), nullable=False),
        sa.Column("claimed_at", TIME, nullable=False),
        sa.Column("told", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("incident_id", "times_opened", "phase"),
    )
    op.create_index("ix_alerts_told_claimed_at", "alerts_told", ["claimed_at"])


def downgrade() -> None:
    """Drop it."""
    op.drop_table("alerts_told")
