"""A lab stands on Debian's Slurm and munge packages and on a directory that every user can read."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
from pathlib import Path

from deploy.simcluster import processes

PACKAGES = {
    "munged": "munge",
    "munge": "munge",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "scontrol": "slurm-client",
    "sbatch": "slurm-client",
    "srun": "slurm-client",
    "sinfo": "slurm-client",
}
NO_GPU_DEVICE = os.makedev(1, 3)  # a clone of /dev/null


class LabError(RuntimeError):
    """The lab cannot be built, started or used; the message says what is missing."""


def missing_packages() -> list[str]:
    """Return the Debian packages a lab needs and this machine lacks."""
    return sorted({deb for tool, deb in PACKAGES.items() if shutil.which(tool, path=processes.PATH) is None})


def cannot_run() -> str | None:
    """Return why no lab can run on this machine, or None when one can."""
    if os.geteuid() != 0:
        return "a Slurm lab needs root (slurmd starts jobs as their users)"
    if missing := missing_packages():
        return f"install {' '.join(missing)} (apt-get install --no-install-recommends {' '.join(missing)})"
    return None


def short_base(prefix: str = "nv-") -> Path:
    """Make a new base directory that every user can read and that leaves room for socket paths (107 bytes)."""
    base = Path(tempfile.mkdtemp(prefix=prefix, dir="/tmp"))
    base.chmod(0o755)
    return base


def prepare(base: Path, *, devices: int) -> None:
    """Make the folders of a lab with the owners its daemons insist on, and ``devices`` fake GPU device files."""
    _insist_on_readable(base)
    for name in ("etc", "state", "log", "pid", "run", "dev", "spool", "munge", "jobs"):
        (base / name).mkdir(exist_ok=True)
    for name in ("state", "log", "pid"):
        shutil.chown(base / name, "slurm")
    for name in ("run", "munge"):
        shutil.chown(base / name, "munge", "munge")
    (base / "munge").chmod(0o700)
    (base / "jobs").chmod(0o1777)
    for gpu in range(devices):
        device = base / f"dev/nvidia{gpu}"
        if not device.exists():
            os.mknod(device, 0o666 | stat.S_IFCHR, NO_GPU_DEVICE)


def munge_key(folder: Path) -> Path:
    """Return the cluster's own munge key, made at the first call."""
    key = folder / "munge.key"
    if not key.exists():
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        shutil.chown(key, "munge", "munge")
    return key


def _insist_on_readable(base: Path) -> None:
    base.mkdir(parents=True, exist_ok=True)
    if len(str(base)) > 60:
        raise LabError(
            f"base directory {base} is too long ({len(str(base))} bytes, at most 60: socket paths end at 107)"
        )
    for folder in (base, *base.parents):
        if not folder.stat().st_mode & stat.S_IXOTH:
            raise LabError(f"{folder} is closed to other users; a lab needs every folder above it open (0755)")
