"""One server leads at a time; a drain knows which slurmctld was last seen to hold it, and its reason before.

Written out, so that it stays what it was when the tables change.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the table and add the columns."""
    op.create_table(
        "controller_lease",
        sa.Column("cluster", sa.String(length=128), primary_key=True),
        sa.Column("holder", sa.String(length=128), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("taken_at", TIME, nullable=False),
        sa.Column("used_at", TIME, nullable=False),
        sa.Column("expires_at", TIME, nullable=False),
    )
    op.add_column("drains", sa.Column("slurm_boot", TIME))
    op.add_column("drains", sa.Column("reason_before", sa.Text(), nullable=False, server_default=""))


def downgrade() -> None:
    """Drop them."""
    with op.batch_alter_table("drains") as table:
        table.drop_column("reason_before")
        table.drop_column("slurm_boot")
    op.drop_table("controller_lease")
