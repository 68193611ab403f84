"""A Slurm in memory with what the real one was seen to do about reservations, and a server that dies in any call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from slurm.errors import InvalidTransition
from slurm.job import JobState
from tests.api.controller.fake_slurm import Bench, FakeSlurm

WRITES = ("drain", "resume", "submit", "cancel", "create_reservation", "delete_reservation")


class Killed(BaseException):
    """The server's process is gone."""


class Strict(FakeSlurm):
    """Notes when a node was open to everybody without having proved itself; dies before or after its n-th write."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = "COMPLETED"
        self.calls = 0
        self.die_at, self.after = -1, False
        self.opened: list[str] = []
        self.watching = False

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        return self._dying(found) if name in WRITES and not self.watching else found

    def _dying(self, verb: Any) -> Any:
        def call(*arguments: Any) -> Any:
            self.watching = True
            try:
                self.calls += 1
                if self.calls == self.die_at and not self.after:
                    raise Killed
                try:
                    return verb(*arguments)
                finally:
                    self._watch()
                    if self.calls == self.die_at:
                        raise Killed
            finally:
                self.watching = False

        return call

    def _watch(self) -> None:
        """In service and in no reservation: then the job must have ended well."""
        proved = any(j.state == "COMPLETED" for j in self.jobs.values())
        if self.jobs and not self.table["n2"].out_of_service and not self.reserved and not proved:
            self.opened.append(f"call {self.calls}")

    def delete_reservation(self, name: str) -> None:
        if any(not j.ended and self.submitted[i].reservation == name for i, j in self.jobs.items()):
            raise InvalidTransition("Requested reservation is in use")
        super().delete_reservation(name)

    def play(self) -> None:
        """Start and end jobs as Slurm does: in their reservation only, and not on a drained node."""
        for number, job in list(self.jobs.items()):
            batch = self.submitted[number]
            free = not self.table[batch.nodes[0]].out_of_service
            if job.state == "PENDING" and free and batch.reservation in self.reserved:
                self.jobs[number] = replace(job, state="RUNNING")
            elif job.state == "RUNNING":
                self.jobs[number] = replace(job, state=self.ends)


def job(b: Bench) -> JobState:
    """The newest job of ours."""
    return b.slurm.jobs[max(b.slurm.jobs)]
