"""A backend asks and tells slurmctld one thing at a time; it owns nothing, retries nothing and decides nothing."""

from __future__ import annotations

import re
from typing import Protocol

from slurm.config import SlurmLimits
from slurm.errors import BadRequest
from slurm.job import JobState
from slurm.reason import one_line
from slurm.state import NodeState

MAX_REASON = 1000

_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}")


class Backend(Protocol):
    """Every verb raises an error of `slurm.errors` when it fails, and none of them tries twice."""

    def node(self, name: str) -> NodeState:
        """Return one node, or raise NotFound."""
        ...

    def nodes(self) -> dict[str, NodeState]:
        """Return every node by name, in one question."""
        ...

    def drain(self, name: str, reason: str) -> None:
        """Let running jobs end and start no other on the node; a reason that stands there is overwritten."""
        ...

    def set_reason(self, name: str, reason: str) -> None:
        """Overwrite the reason and leave the state alone."""
        ...

    def resume(self, name: str) -> None:
        """Give the node back to the scheduler, or raise InvalidTransition when it is not out of service."""
        ...

    def job(self, job_id: int) -> JobState | None:
        """Return one job; None when slurmctld does not remember it."""
        ...

    def requeue(self, job_id: int) -> None:
        """Stop the job where it runs and queue it again under the same id."""
        ...

    def limits(self) -> SlurmLimits:
        """Return the limits of the running slurmctld."""
        ...

    def ping(self) -> bool:
        """Return whether any slurmctld, primary or backup, answers."""
        ...


def checked_node(name: str) -> str:
    """Return the name, or raise BadRequest: a list, a range or ``ALL`` would reach more than one node."""
    if _NODE.fullmatch(name) is None or name.upper() in {"ALL", "LOCALHOST", "DEFAULT"}:
        raise BadRequest(f"{name[:64]!r} is not the name of one node")
    return name


def checked_reason(reason: str) -> str:
    """Return the reason, or raise BadRequest: Slurm must store it exactly as it is, or it cannot be recognised."""
    if not reason or reason != one_line(reason, MAX_REASON) or reason[0] in "\"'":
        raise BadRequest(f"reason {reason[:64]!r} is empty, quoted, too long or not one printable line")
    return reason


def checked_job(job_id: int) -> int:
    """Return the job id, or raise BadRequest."""
    if not 0 < job_id < 2**32:
        raise BadRequest(f"{job_id} is not a job id")
    return job_id
