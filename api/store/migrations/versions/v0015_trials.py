"""Trials of nodes as jobs in reservations, and which part stood where since when.

Written out, so that it stays what it was when the tables change.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _name() -> sa.String:
    return sa.String(length=128)


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "trials",
        sa.Column("id", NUMBER, primary_key=True),
        sa.Column("cluster", _name(), nullable=False),
        sa.Column("node", _name(), nullable=False),
        sa.Column("drain_id", sa.BigInteger(), nullable=False),
        sa.Column("reservation", sa.String(length=64), nullable=False),
        sa.Column("step", sa.String(length=16), nullable=False),
        sa.Column("job_id", sa.BigInteger()),
        sa.Column("order_id", sa.String(length=64)),
        sa.Column("why", sa.Text(), nullable=False, server_default=""),
        sa.Column("bad", sa.String(length=8), nullable=False, server_default=""),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("step_at", TIME, nullable=False),
        sa.Column("ended_at", TIME),
    )
    op.create_index("ix_trials_open", "trials", ["cluster", "ended_at"])
    op.create_table(
        "part_slots",
        sa.Column("id", NUMBER, primary_key=True),
        *(sa.Column(n, _name(), nullable=False) for n in ("cluster", "node")),
        sa.Column("kind", sa.String(length=16), nullable=False),
        *(sa.Column(n, _name(), nullable=False) for n in ("slot", "uuid", "serial", "model")),
        sa.Column("since", TIME, nullable=False),
        sa.Column("until", TIME),
        sa.Column("replaced", sa.BigInteger()),
        sa.Column("looked", sa.Boolean(), nullable=False),
    )
    op.create_index("ix_part_slots_node", "part_slots", ["cluster", "node", "kind", "slot"])
    for name in ("serial", "uuid", "looked"):
        op.create_index(f"ix_part_slots_{name}", "part_slots", [name])


def downgrade() -> None:
    """Drop them."""
    for name in ("looked", "uuid", "serial", "node"):
        op.drop_index(f"ix_part_slots_{name}", "part_slots")
    op.drop_table("part_slots")
    op.drop_index("ix_trials_open", "trials")
    op.drop_table("trials")
