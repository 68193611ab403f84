"""What Slurm holds about one job, read from fields that no user can write.

``scontrol show job`` prints the job's name raw: a name with a line break in it forges any field below. So one job is
asked for by ``squeue -O`` with fixed columns, none of them the user's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from slurm.errors import BadAnswer, NotFound
from slurm.nodes import time_from_text

# Field of `squeue -O` and its width; all releases from 20.11 know them. The list of nodes may be cut, so it is last.
COLUMNS = {
    "JobID": 20,
    "State": 24,
    "BatchFlag": 8,
    "Requeue": 8,
    "RestartCnt": 12,
    "StartTime": 24,
    "PriorityLong": 24,
    "NumNodes": 16,
    "BatchHost": 256,
    "Reason": 256,
    "NodeList": 16384,
}
FORMAT = ",".join(f"{name}:{width}" for name, width in COLUMNS.items())
NOTE_BYTES = 4096
NOTE_FORMAT = f"JobID:20,admin_comment:{NOTE_BYTES}"

_EMPTY = frozenset({"", "n/a", "N/A", "None", "(null)"})
_ENDED = frozenset(
    {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY"}
)
# A job that was requeued waits like any other, whatever its state is called then; the last two say that it is held.
_HOLDING = frozenset({"REQUEUE_HOLD", "SPECIAL_EXIT"})
_REQUEUED = frozenset({"REQUEUED", "REQUEUE_FED"}) | _HOLDING


@dataclass(frozen=True, slots=True)
class JobState:
    """One job as slurmctld sees it; None where it did not say."""

    job_id: int
    state: str
    reason: str | None = None
    batch: bool | None = None
    requeue: bool | None = None
    restart_count: int | None = None
    held: bool | None = None
    start_time: datetime | None = None
    num_nodes: int | None = None
    batch_host: str | None = None
    nodelist: str | None = None

    @property
    def running(self) -> bool:
        """Whether the job holds its nodes and has not begun to end."""
        return self.state in {"RUNNING", "CONFIGURING"}

    @property
    def ended(self) -> bool:
        """Whether the job will not run again by itself."""
        return self.state in _ENDED


def state_and_hold(words: Sequence[str], priority: int | None) -> tuple[str, bool | None]:
    """The one state that counts among those told, and whether the job is held; a priority of 0 says so as well."""
    told = [word.upper() for word in words if word]
    held = True if _HOLDING & set(told) else None if priority is None else priority == 0
    if "COMPLETING" in told:
        return "COMPLETING", held
    state = next(iter(told), "UNKNOWN")
    return "PENDING" if state in _REQUEUED else state, held


def job_from_columns(text: str, job_id: int) -> JobState | None:
    """Read the answer of ``squeue -O`` to `FORMAT`; None when the job is not in it."""
    for line in text.split("\n"):
        if not line.strip():
            continue
        fields = _fields(line)
        if (found := _digits(fields["JobID"])) is None:
            raise BadAnswer(f"squeue: {line.strip()[:100]!r} is no row of a job")
        if found == job_id:
            return _job(job_id, fields)
    return None


def note_from_columns(out: bytes, job_id: int) -> str:
    """Read the answer of ``squeue -O`` to `NOTE_FORMAT`; NotFound without the job.

    What could not be written back as it is raises BadAnswer: one that was cut, one of several lines. A release that
    does not know the column leaves it out and succeeds, which must not look like a job without a comment.
    """
    if not out.strip():
        raise NotFound(f"squeue: job {job_id} is not in the answer")
    line = out.removesuffix(b"\n")
    if line[:20].strip() != str(job_id).encode() or len(line) != 20 + NOTE_BYTES or b"\n" in line:
        raise BadAnswer(f"squeue: the comment of job {job_id} is longer than {NOTE_BYTES} bytes or not one line")
    if line[-1:] != b" ":
        raise BadAnswer(f"squeue: the comment of job {job_id} has {NOTE_BYTES} bytes or more")
    text = line[20:].rstrip(b" ").decode("utf-8", "surrogateescape")
    return "" if text in ("(null)", "N/A") else text


def _fields(line: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    position = 0
    for name, width in COLUMNS.items():
        fields[name] = line[position : position + width].strip()
        position += width
    return fields


def _job(job_id: int, fields: dict[str, str]) -> JobState:
    nodelist = fields["NodeList"]
    state, held = state_and_hold([fields["State"]], _digits(fields["PriorityLong"]))
    return JobState(
        job_id=job_id,
        state=state,
        reason=_told(fields["Reason"]),
        batch=_yes(fields["BatchFlag"]),
        requeue=_yes(fields["Requeue"]),
        restart_count=_digits(fields["RestartCnt"]),
        held=held,
        start_time=time_from_text(fields["StartTime"]),
        num_nodes=_digits(fields["NumNodes"]),
        batch_host=_told(fields["BatchHost"]),
        nodelist=_told(nodelist) if len(nodelist) < COLUMNS["NodeList"] else None,
    )


def _told(text: str) -> str | None:
    return None if text in _EMPTY else text


def _digits(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def _yes(text: str) -> bool | None:
    return {"0": False, "1": True}.get(text)
