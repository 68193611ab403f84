"""A real agent process over a simulated host, asked over its real socket."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import msgspec

from checks.wire import Report
from daemon.agent.status import Status
from daemon.outbox.segments import read
from tests.daemon.agent.central_server import until

ROOT = Path(__file__).resolve().parents[3]
START = "import sys; from pathlib import Path; from daemon.agent.main import run; sys.exit(run(Path(sys.argv[1])))"
JOB = {
    "SLURMD_NODENAME": "n1",
    "SLURM_CLUSTER_NAME": "lab",
    "SLURM_JOB_ID": "42",
    "SLURM_JOB_RESTART_COUNT": "0",
    "SLURM_JOB_UID": "1001",
    "SLURM_JOB_PARTITION": "gpu",
    "SLURM_JOB_GPUS": "0,1",
    "SLURM_JOB_NUM_NODES": "1",
    "SLURM_NODELIST": "n1",
}


@dataclass(frozen=True, slots=True)
class Answered:
    """What a hook would be told; exit -1 = the answer is not one of ours."""

    status: int
    exit: int
    text: str
    seconds: float


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("agent", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


@dataclass(slots=True)
class RunningAgent:
    """One agent with a folder of its own."""

    base: Path
    settings: dict[str, dict[str, object]] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    socket_suffix: str = ""
    _log: IO[bytes] | None = None

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self.base / "s"

    @property
    def config(self) -> Path:
        """Its configuration file."""
        return self.base / "nodevet.toml"

    @property
    def log(self) -> str:
        """What it has said so far."""
        return (self.base / "log").read_text(errors="replace")

    def configure(self, **sections: dict[str, object]) -> None:
        """Write the configuration; every path lies in the agent's own folder."""
        agent: dict[str, object] = {
            "cluster": "lab",
            "node": "n1",
            "socket": str(self.socket),
            "state": str(self.base / "state"),
            "marks": str(self.base / "marks"),
            "stop_file": str(self.base / "STOP"),
            "policy_dir": str(self.base / "policy.d"),
            "profile_dir": str(self.base / "profiles.d"),
            "gres_conf": str(self.base / "gres.conf"),
        }
        for name, values in sections.items():
            self.settings[name] = {**self.settings.get(name, {}), **values}
        made = {**self.settings, "agent": {**agent, **self.settings.get("agent", {})}}
        text = "".join(_section(name, values) for name, values in made.items())
        self.config.write_text(text)
        self.config.chmod(0o600)

    def start(self, wait: bool = True) -> None:
        """Run it, and wait until it has looked at its node once."""
        if not self.config.exists():
            self.configure()
        self._log = (self.base / "log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, str(self.config)],
            cwd=ROOT,
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT), **self.env},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
        )
        if wait:
            until(self.ready, 30, "agent's first round")

    def ready(self) -> bool:
        """Whether it answers and every check has been asked once."""
        assert self.process is None or self.process.poll() is None, self.log
        try:
            status = self.status()
        except OSError:
            return False
        return bool(status.checks) and all(c.age is not None for c in status.checks)

    @property
    def pid(self) -> int:
        """The main process."""
        assert self.process is not None
        return self.process.pid

    def stop(self, how: int = signal.SIGTERM, timeout: float = 15.0) -> int:
        """End it, and wait for that."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(how)
        status = self.process.wait(timeout)
        self.process = None
        if self._log is not None:
            self._log.close()
        return status

    def request(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None, timeout: float = 20.0
    ) -> tuple[int, dict[str, str], bytes]:
        """One exchange over the socket."""
        connection = _Unix(Path(f"{self.socket}{self.socket_suffix}"), timeout)
        with contextlib.closing(connection):
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()

    def hook(self, kind: str = "prolog", **changes: str | None) -> Answered:
        """Ask as a hook would, with the job's variables changed or (None) taken away."""
        values = {k: v for k, v in {**JOB, **changes}.items() if v is not None}
        return self.raw(kind, b"\0".join(f"{k}={v}".encode() for k, v in values.items()))

    def raw(self, kind: str, body: bytes, headers: dict[str, str] | None = None) -> Answered:
        """Ask as a hook would, with any bytes."""
        started = time.monotonic()
        status, given, text = self.request("POST", f"/v1/{kind}", body, headers)
        code = given.get("nodevet-exit", "")
        seconds = time.monotonic() - started
        return Answered(status, int(code) if code in ("0", "1") else -1, text.decode(errors="replace").strip(), seconds)

    def status(self) -> Status:
        """What it says about itself."""
        return msgspec.json.decode(self.request("GET", "/v1/status")[2], type=Status)

    def codes(self) -> set[str]:
        """Codes of all present findings that are not ok."""
        return {f.code for f in self.status().findings if f.status not in ("ok", "skipped")}

    def on_disk(self) -> list[Report]:
        """All reports in the segments, as the next agent would find them."""
        found: list[Report] = []
        for path in sorted((self.base / "state" / "outbox").glob("*/*.seg")):
            found += [msgspec.json.decode(r.payload, type=Report) for r in read(path)[1]]
        return found

    def helpers(self) -> dict[str, int]:
        """Names and pids of the process's children and grandchildren."""
        found: dict[str, int] = {}
        parents = {self.pid}
        for _ in range(3):
            for pid in [int(p) for p in os.listdir("/proc") if p.isdigit()]:
                with contextlib.suppress(OSError):
                    fields = Path(f"/proc/{pid}/stat").read_text()
                    if int(fields.rpartition(")")[2].split()[1]) in parents and pid not in found.values():
                        found[fields[fields.index("(") + 1 : fields.rindex(")")]] = pid
            parents |= set(found.values())
        return found


def _section(name: str, values: dict[str, Any]) -> str:
    if name == "checks":
        return "".join(_section(f"checks.{check}", settings) for check, settings in values.items())
    lines = [f"{key} = {msgspec.json.encode(value).decode()}" for key, value in values.items()]
    return f"[{name}]\n" + "\n".join(lines) + "\n"
