"""One built hook with paths of its own runs as slurmd runs it."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

JOB = {
    "SLURMD_NODENAME": "n1",
    "SLURM_JOB_ID": "4242",
    "SLURM_JOBID": "4242",
    "SLURM_JOB_RESTART_COUNT": "1",
    "SLURM_JOB_UID": "1001",
    "SLURM_CLUSTER_NAME": "lab",
    "SLURM_JOB_GPUS": "0,1",
    "CUDA_VISIBLE_DEVICES": "0,1",
}


@dataclass(frozen=True, slots=True)
class Mark:
    """One mark: whose it is and what it says."""

    name: str
    cause: str


@dataclass(frozen=True, slots=True)
class Result:
    """What one run of the hook came to."""

    code: int
    out: bytes
    err: str
    seconds: float


@dataclass(slots=True)
class Hook:
    """The built hook with its own socket path, marks, stop file and configuration."""

    base: Path
    bin: Path
    conf: Path
    deadline: float = 1.0
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def socket(self) -> Path:
        """Where the agent of this test listens."""
        return self.base / "agent.sock"

    @property
    def marks_dir(self) -> Path:
        """Where this test's marks go."""
        return self.base / "marks"

    @property
    def stop_file(self) -> Path:
        """The file that stops every hook of this test."""
        return self.base / "STOP"

    def configure(self, **settings: str) -> None:
        """Write hook.conf with this test's paths, changed by ``settings``."""
        values = {
            "socket": str(self.socket),
            "marks": str(self.marks_dir),
            "stop_file": str(self.stop_file),
            "deadline_s": str(self.deadline),
            "restart_retry_s": "0.3",
        }
        self.settings = values | settings
        self.conf.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))
        self.conf.chmod(0o600)

    def start(
        self,
        kind: str = "prolog",
        *arguments: str,
        env: dict[str, str] | None = None,
        wrap: tuple[str, ...] = (),
        stdout: int = subprocess.PIPE,
    ) -> subprocess.Popen[bytes]:
        """Start the hook as slurmd does: absolute path, no PATH, no HOME, nothing on stdin."""
        return subprocess.Popen(
            [*wrap, str(self.bin / f"nodevet-{kind}"), *arguments],
            env=JOB if env is None else env,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
        )

    def run(
        self,
        kind: str = "prolog",
        *arguments: str,
        env: dict[str, str] | None = None,
        wrap: tuple[str, ...] = (),
        stdout: int = subprocess.PIPE,
    ) -> Result:
        """Run the hook to its end; one that overstays its deadline by 5 s is killed and fails the test."""
        begun = time.monotonic()
        process = self.start(kind, *arguments, env=env, wrap=wrap, stdout=stdout)
        try:
            out, err = process.communicate(timeout=self.deadline + 5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        return Result(process.returncode, out or b"", err.decode(), time.monotonic() - begun)

    def marks(self, where: Path | None = None) -> list[Mark]:
        """Return the marks in ``where``, by name."""
        paths = sorted((where or self.marks_dir).glob("*"))
        return [Mark(path.name, path.read_text().partition(" ")[2].strip()) for path in paths]

    def causes(self) -> list[str]:
        """Return the causes of all marks."""
        return [mark.cause for mark in self.marks()]
