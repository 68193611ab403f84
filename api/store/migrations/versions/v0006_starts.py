"""Every start of a job on a node, and the faults that began during it.

Written out, so that it stays what it was when the tables change.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make both tables."""
    op.create_table(
        "starts",
        *_key(),
        sa.Column("nodes", sa.Integer()),
        sa.Column("outcome", sa.String(length=32), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("at", TIME, nullable=False),
        sa.Column("ended_at", TIME),
        sa.Column("fate", sa.String(length=16), nullable=False, server_default=""),
        sa.Column("fate_detail", sa.Text(), nullable=False, server_default=""),
        sa.Column("fate_until", TIME),
    )
    op.create_table(
        "attributions",
        *_key(),
        sa.Column("uid", SERIAL),
        sa.Column("gpu_minors", sa.Text(), nullable=False),
        sa.Column("check_name", sa.String(length=64), nullable=False),
        sa.Column("code", sa.String(length=64), nullable=False),
        sa.Column("target", sa.String(length=128), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("blame", sa.String(length=16)),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("shared", sa.Boolean(), nullable=False),
        sa.Column("began_at", TIME, nullable=False),
        sa.Column("at", TIME, nullable=False),
    )
    for table in ("starts", "attributions"):
        op.create_index(f"ix_{table}_job", table, ["cluster", "job_id"])
        op.create_index(f"ix_{table}_node", table, ["cluster", "node", "at"])
        op.create_index(f"ix_{table}_at", table, ["at"])


def _key() -> tuple[sa.Column[object], ...]:
    return (
        sa.Column("id", SERIAL, primary_key=True),
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("node", sa.String(length=128), nullable=False),
        sa.Column("job_id", SERIAL, nullable=False),
        sa.Column("attempt", sa.String(length=32), nullable=False),
    )


def downgrade() -> None:
    """Drop them."""
    for table in ("attributions", "starts"):
        op.drop_table(table)
