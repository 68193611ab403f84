"""A backend asks and tells slurmctld one thing at a time; it owns nothing, retries nothing and decides nothing."""

from __future__ import annotations

from typing import Literal, Protocol

from slurm.batch import Batch
from slurm.config import SlurmLimits
from slurm.job import JobState
from slurm.reservation import Reservation, Reserved
from slurm.state import NodeState
from slurm.topology import Topology

Field = Literal["comment", "extra"]
"""The texts that Slurm keeps with a node for other people."""
AfterReboot = Literal["resume", "down"]


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

    def set_note(self, name: str, field: Field, text: str) -> None:
        """Overwrite a text that belongs to others as well: `slurm.notes` adds to it and takes only ours away."""
        ...

    def reboot(self, name: str, reason: str, *, asap: bool = True, then: AfterReboot | None = "resume") -> None:
        """Have the node rebooted once no job runs there; with ``asap`` none starts there meanwhile.

        ``then`` None, without ``asap``: a drained node comes back drained, under the same reason.
        """
        ...

    def cancel_reboot(self, name: str) -> None:
        """Take back a reboot that has not begun, or raise InvalidTransition."""
        ...

    def job(self, job_id: int) -> JobState | None:
        """Return one job; None when slurmctld does not remember it."""
        ...

    def requeue(self, job_id: int) -> None:
        """Stop the job where it runs and queue it again under the same id."""
        ...

    def job_note(self, job_id: int) -> str:
        """Return the job's AdminComment, which no user can write; NotFound when slurmctld does not remember it."""
        ...

    def set_job_note(self, job_id: int, text: str) -> None:
        """Overwrite the job's AdminComment: `slurm.notes` adds to it and takes only ours away."""
        ...

    def submit(self, batch: Batch) -> int:
        """Hand in a job as the account we are, and return its id."""
        ...

    def cancel(self, job_id: int) -> None:
        """End the job wherever it is; one that has ended is left as it is."""
        ...

    def reservations(self) -> dict[str, Reserved]:
        """Return every reservation by name, in one question."""
        ...

    def create_reservation(self, wish: Reservation) -> None:
        """Reserve nodes from now on, or raise Exists when the name or a node is taken."""
        ...

    def delete_reservation(self, name: str) -> None:
        """End a reservation, or raise NotFound."""
        ...

    def limits(self) -> SlurmLimits:
        """Return the limits of the running slurmctld."""
        ...

    def topology(self) -> Topology:
        """Return which nodes share a switch or a block; without any topology it is empty."""
        ...

    def ping(self) -> bool:
        """Return whether any slurmctld, primary or backup, answers."""
        ...
