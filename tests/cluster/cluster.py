"""What the tests do to a real cluster, by the commands that a person would type."""

from __future__ import annotations

from pathlib import Path

from deploy.simcluster.slurm_lab import SlurmLab
from slurm.backend import Backend
from slurm.commands import Commands
from slurm.jobenv import JobEnv


class Cluster:
    """A real cluster and the backend under test, beside each other."""

    def __init__(self, lab: SlurmLab) -> None:
        self.lab = lab
        self.node = "n2"
        self.backend: Backend = Commands(conf=lab.conf)
        self.hooks = lab.base / "hooks"

    def admin_drain(self, reason: str) -> None:
        """Drain the test's node by hand."""
        self.admin("state=drain", f"reason={reason}")

    def admin(self, *settings: str) -> None:
        """Change the test's node by hand."""
        self.lab.run(["scontrol", "update", f"nodename={self.node}", *settings])

    def running_job(self) -> int:
        """Return a batch job that runs."""
        job = self.lab.sbatch("-N2", script="sleep 60")
        self.lab.wait_job(job, "RUNNING")
        return job

    def calm(self) -> None:
        """Bring the nodes back to idle and choose one; a node just resumed takes seconds, so another is chosen."""
        # Dumps too: a slurmctld that was killed may give an id to another job again.
        for left in self.hooks.iterdir():
            left.unlink()
        for name, state in self.backend.nodes().items():
            if state.out_of_service:
                self.lab.run(["scontrol", "update", f"nodename={name}", "state=resume"], check=False)
        self.lab.wait_for(lambda: len(self._idle()) >= 3, 60, lambda: f"fewer than 3 nodes idle: {self.lab.states()}")
        self.node = self._idle()[-1]

    def _idle(self) -> list[str]:
        return sorted(name for name, state in self.lab.states().items() if state == "idle")

    def clear(self) -> None:
        """End every job and reservation."""
        if jobs := self.lab.run(["squeue", "-h", "-o", "%A"]).stdout.split():
            self.lab.run(["scancel", *jobs], check=False)
        for name in ("plain", "maint"):
            self.lab.run(["scontrol", "delete", f"reservationname={name}"], check=False)

    def environment(self, kind: str, job: int, node: str) -> JobEnv:
        """Return what the hook of a job on a node was told, once it has run."""
        return JobEnv.parse(self.dump(kind, job, node).read_bytes())

    def dump(self, kind: str, job: int, node: str) -> Path:
        """Return the file with the hook's environment, once it is there."""
        path = self.hooks / f"{kind}.{job}.{node}"
        self.lab.wait_for(path.exists, 30, lambda: f"{kind} of job {job} on {node} has not run")
        return path
