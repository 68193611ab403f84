"""What slurmctld told of a job, and what was written down when Slurm could not kill it."""

from __future__ import annotations

from collections.abc import Sequence

import click

from daemon.central import Central, Refused
from daemon.cli.output import table
from daemon.cli.service import Row, age, cell, every

UNKILLABLE = "unkillable"


def facts(client: Central, path: str) -> list[Row]:
    """Every attempt that slurmctld told of; none from a service that does not know the question."""
    try:
        return every(client, f"{path}/facts")
    except Refused:
        return []


def print_facts(rows: Sequence[Row]) -> None:
    """Array, het job, nodes, start and end of each attempt; nothing where slurmctld tells nothing."""
    if not rows:
        return
    shown = [
        (
            cell(r, "job_id"),
            cell(r, "restart_count"),
            _pair(r, "array_job_id", "array_task_id", "_"),
            _pair(r, "het_job_id", "het_offset", "+"),
            cell(r, "partition"),
            cell(r, "nodelist", 40),
            age(r, "started_at"),
            age(r, "ended_at"),
            _exit(r),
        )
        for r in rows
    ]
    click.echo("\nas slurmctld told it:")
    table(("JOB", "RESTART", "ARRAY", "HET", "PARTITION", "NODES", "BEGAN", "ENDED", "EXIT"), shown)


def print_evidence(rows: Sequence[Row]) -> None:
    """What the processes waited for that Slurm could not kill, node by node."""
    for row in rows:
        notes = row.get("notes")
        if not isinstance(notes, list) or UNKILLABLE not in notes:
            continue
        click.echo(f"\nSlurm could not kill it on {cell(row, 'node')}, {age(row, 'received_at')} ago:")
        for note in notes:
            if note != UNKILLABLE:
                click.echo(f"  {cell({'note': note}, 'note')}")


def _pair(row: Row, first: str, second: str, mark: str) -> str:
    """``40_2`` and ``41+1``, as squeue writes them."""
    return "-" if row.get(first) is None else f"{cell(row, first)}{mark}{cell(row, second)}"


def _exit(row: Row) -> str:
    status = row.get("exit_status")
    if not isinstance(status, int):
        return "-"
    return f"signal {status & 0x7F}" if status & 0x7F else str((status >> 8) & 0xFF)
