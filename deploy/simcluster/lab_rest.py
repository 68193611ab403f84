"""A lab's slurmrestd answers on a loopback port and a unix socket to whoever has a token of the lab's own key."""

from __future__ import annotations

import re
import secrets
import shutil
import socket
import subprocess
from pathlib import Path

from deploy.simcluster import ports, processes
from deploy.simcluster.lab_ground import LabError
from deploy.simcluster.slurm_lab import SlurmLab

PACKAGES = "slurmrestd slurm-wlm-jwt-plugin"
JWT_PLUGINS = ("/usr/lib/*/slurm-wlm/auth_jwt.so", "/usr/lib*/slurm/auth_jwt.so")
USER = "nobody"  # slurmrestd refuses to run as root or SlurmUser
ONE_VERSION = (22, 5)  # 22.05 has a plugin for each API version and ends without slurmdbd unless told which


def cannot_run() -> str | None:
    """Return why no slurmrestd can run on this machine, or None when one can."""
    plugin = any(path for pattern in JWT_PLUGINS for path in Path("/").glob(pattern[1:]))
    if shutil.which("slurmrestd", path=processes.PATH) is None or not plugin:
        return f"install {PACKAGES} (apt-get install --no-install-recommends {PACKAGES})"
    return None


def settings(base: Path) -> str:
    """Make the lab's key and return the lines of slurm.conf by which slurmctld accepts tokens made with it."""
    key = base / "jwt.key"
    if not key.exists():
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(32))
        shutil.chown(key, "slurm")
    return f"AuthAltTypes=auth/jwt\nAuthAltParameters=jwt_key={key}\n"


class SlurmRestd:
    """One slurmrestd beside a lab that runs with `settings`; it ends with the lab."""

    def __init__(self, lab: SlurmLab) -> None:
        if reason := cannot_run():
            raise LabError(reason)
        self._lab = lab
        self._socket = lab.base / "rest" / "r"
        self._holder: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.socket_url = f"unix:{self._socket}"

    def start(self) -> None:
        """Start it and wait until it listens."""
        lab = self._lab
        self._socket.parent.mkdir(exist_ok=True)
        shutil.chown(self._socket.parent, USER)
        (self._holder,) = ports.reserve(1)
        port = ports.number(self._holder)
        self.url = f"http://127.0.0.1:{port}"
        plugins = "openapi/v0.0.38" if _release() <= ONE_VERSION else "slurmctld"
        argv = ["slurmrestd", "-f", str(lab.conf), "-s", plugins, "-a", "rest_auth/jwt"]
        # SLURM_JWT tells it that every request brings a token of its own.
        env = {**lab.env, "SLURM_JWT": "daemon"}
        argv += [f"127.0.0.1:{port}", self.socket_url]
        self._process = processes.spawn(argv, env=env, log=lab.base / "log/slurmrestd.stderr", user=USER)
        lab.wait_for(
            lambda: _listens(port), 20, lambda: f"slurmrestd does not listen; see {lab.base}/log/slurmrestd.stderr"
        )

    def stop(self) -> None:
        """End it and free its port."""
        if self._process is not None:
            processes.end([self._process.pid], grace=5)
            self._process.wait(timeout=5)
        if self._holder is not None:
            self._holder.close()


def _release() -> tuple[int, int]:
    done = subprocess.run(
        ["slurmrestd", "-V"], env={"PATH": processes.PATH}, capture_output=True, text=True, timeout=30
    )
    match = re.search(r"(\d+)\.(\d+)\.", done.stdout + done.stderr)
    if match is None:
        raise LabError(f"slurmrestd -V: {(done.stdout + done.stderr).strip()[:100]!r} names no release")
    return int(match[1]), int(match[2])


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
