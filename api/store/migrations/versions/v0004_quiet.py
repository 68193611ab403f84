"""People pause nodes and silence checks, each for a time.

Written out, so that it stays what it was when the tables change.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make both tables."""
    op.create_table(
        "pauses",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("node", sa.String(length=128), nullable=False),
        *_common(),
    )
    op.create_index("ix_pauses_open", "pauses", ["cluster", "ended_at"])
    op.create_table(
        "silences",
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("check_name", sa.String(length=128), nullable=False, server_default=""),
        sa.Column("node", sa.String(length=128), nullable=False, server_default=""),
        sa.Column("partition_name", sa.String(length=128), nullable=False, server_default=""),
        *_common(),
    )
    op.create_index("ix_silences_open", "silences", ["cluster", "ended_at"])


def _common() -> tuple[sa.Column[object], ...]:
    return (
        sa.Column("until", TIME, nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("ended_at", TIME),
        sa.Column("ended_by", sa.String(length=128), nullable=False, server_default=""),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_index("ix_silences_open", "silences")
    op.drop_table("silences")
    op.drop_index("ix_pauses_open", "pauses")
    op.drop_table("pauses")
