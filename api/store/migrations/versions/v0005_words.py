"""People accept risks and clear contests; a drain knows its parts, its strikes and its probation.

Written out, so that it stays what it was when the tables change.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make the table and add the columns."""
    op.create_table(
        "words",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("node", sa.String(length=128), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("code", sa.String(length=64), nullable=False, server_default=""),
        sa.Column("until", TIME, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("ended_at", TIME),
        sa.Column("ended_by", sa.String(length=128), nullable=False, server_default=""),
    )
    op.create_index("ix_words_node", "words", ["cluster", "node", "kind"])
    op.add_column("drains", sa.Column("gpus", sa.JSON(), nullable=False, server_default="[]"))
    op.add_column("drains", sa.Column("part", sa.Text(), nullable=False, server_default=""))
    op.add_column("drains", sa.Column("held", sa.Text(), nullable=False, server_default=""))
    op.add_column("drains", sa.Column("weight", sa.Integer(), nullable=False, server_default="1"))
    op.add_column("drains", sa.Column("probation_until", TIME))


def downgrade() -> None:
    """Drop them."""
    with op.batch_alter_table("drains") as table:
        for name in ("probation_until", "weight", "held", "part", "gpus"):
            table.drop_column(name)
    op.drop_index("ix_words_node", "words")
    op.drop_table("words")
