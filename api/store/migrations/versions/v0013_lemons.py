"""Who excludes which node by hand, and whose job ended how.

Written out, so that it stays what it was when the tables change.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the table, the column and the index."""
    op.create_table(
        "exclusions",
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("node", sa.String(length=128), nullable=False),
        sa.Column("uid", SERIAL, nullable=False, autoincrement=False),
        sa.Column("day", sa.String(length=10), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "node", "uid", "day"),
    )
    op.create_index("ix_exclusions_seen_at", "exclusions", ["seen_at"])
    op.add_column("job_facts", sa.Column("uid", sa.BigInteger()))
    op.create_index("ix_job_facts_ended_at", "job_facts", ["ended_at"])


def downgrade() -> None:
    """Drop them."""
    op.drop_index("ix_job_facts_ended_at", "job_facts")
    with op.batch_alter_table("job_facts") as table:
        table.drop_column("uid")
    op.drop_table("exclusions")
