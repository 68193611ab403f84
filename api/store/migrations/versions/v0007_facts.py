"""What slurmctld alone knows of jobs: array, het job, start and end.

Written out, so that it stays what it was when the tables change.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "job_facts",
        sa.Column("cluster", sa.String(length=128), nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("restart_count", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("array_job_id", sa.BigInteger()),
        sa.Column("array_task_id", sa.BigInteger()),
        sa.Column("het_job_id", sa.BigInteger()),
        sa.Column("het_offset", sa.Integer()),
        sa.Column("partition_name", sa.String(length=128)),
        sa.Column("nodelist", sa.Text()),
        sa.Column("started_at", TIME),
        sa.Column("ended_at", TIME),
        sa.Column("exit_status", sa.BigInteger()),
        sa.Column("seen_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("cluster", "job_id", "restart_count"),
    )
    op.create_index("ix_job_facts_array", "job_facts", ["cluster", "array_job_id"])
    op.create_index("ix_job_facts_seen_at", "job_facts", ["seen_at"])


def downgrade() -> None:
    """Drop it."""
    op.drop_index("ix_job_facts_seen_at", "job_facts")
    op.drop_index("ix_job_facts_array", "job_facts")
    op.drop_table("job_facts")
