"""What slurmctld alone knows of a job, its place in an array or het job, comes through a spool beside slurmctld."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

MAX_BYTES = 300 * 1024
_NUMBER = re.compile(rb"[0-9]{1,10}")
_NODELIST = re.compile(rb"[A-Za-z0-9.,_\[\]-]{1,65536}")
_NAME = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


@dataclass(frozen=True, slots=True)
class JobFacts:
    """One attempt of a job as slurmctld told its own prolog or epilog; None where it did not say."""

    at: datetime | None = None
    cluster: str | None = None
    job_id: int | None = None
    uid: int | None = None
    restart_count: int | None = None
    array_job_id: int | None = None
    array_task_id: int | None = None
    het_job_id: int | None = None
    het_offset: int | None = None
    partition: str | None = None
    nodelist: str | None = None
    exit_status: int | None = None

    @classmethod
    def parse(cls, data: bytes) -> JobFacts:
        """Read one file of the spool; what is garbled is left out."""
        head, _, rest = data[:MAX_BYTES].partition(b"\0")
        values: dict[bytes, bytes] = {}
        for item in rest.split(b"\0"):
            name, sign, value = item.partition(b"=")
            if sign:
                values.setdefault(name, value)
        seconds = int(head) if _NUMBER.fullmatch(head) else 0
        return cls(
            at=datetime.fromtimestamp(seconds, timezone.utc) if 0 < seconds < 2**33 else None,
            cluster=_text(values, _NAME, b"SLURM_CLUSTER_NAME"),
            job_id=_number(values, b"SLURM_JOB_ID") or _number(values, b"SLURM_JOBID"),
            uid=_number(values, b"SLURM_JOB_UID"),
            restart_count=_number(values, b"SLURM_JOB_RESTART_COUNT"),
            array_job_id=_number(values, b"SLURM_ARRAY_JOB_ID"),
            array_task_id=_number(values, b"SLURM_ARRAY_TASK_ID"),
            het_job_id=_number(values, b"SLURM_HET_JOB_ID"),
            het_offset=_number(values, b"SLURM_HET_JOB_OFFSET"),
            partition=_text(values, _NAME, b"SLURM_JOB_PARTITION"),
            nodelist=_text(values, _NODELIST, b"SLURM_JOB_NODELIST"),
            exit_status=_number(values, b"SLURM_JOB_EXIT_CODE"),
        )


def _number(values: Mapping[bytes, bytes], name: bytes) -> int | None:
    value = values.get(name, b"")
    return int(value) if _NUMBER.fullmatch(value) and int(value) < 2**32 else None


def _text(values: Mapping[bytes, bytes], pattern: re.Pattern[bytes], name: bytes) -> str | None:
    value = values.get(name, b"")
    return value.decode("ascii") if pattern.fullmatch(value) else None
