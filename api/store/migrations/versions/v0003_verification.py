"""A drain knows the checks that led to it and the boot of its last clean round.

Written out, so that it stays what it was when the tables change.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns."""
    op.add_column("drains", sa.Column("checks", sa.JSON(), nullable=False, server_default="[]"))
    op.add_column("drains", sa.Column("boot_seen", sa.String(length=64), nullable=False, server_default=""))


def downgrade() -> None:
    """Drop them."""
    with op.batch_alter_table("drains") as table:
        table.drop_column("boot_seen")
        table.drop_column("checks")
