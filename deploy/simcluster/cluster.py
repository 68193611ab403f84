"""A simulated cluster is real Slurm, a real central service and one real agent a node over simulated hosts."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from api.store.database import Database
from api.store.migrate import upgrade
from api.store.store import Store
from daemon.central import Central, CentralError
from deploy.simcluster import ports, processes, smi, tokens, waiting
from deploy.simcluster.host import SimHost
from deploy.simcluster.lab_ground import short_base
from deploy.simcluster.slurm_lab import SlurmLab, stop_at
from slurm.hook.build import build

CLUSTER = "sim"
SERVER_USER = "slurm"
# Simulated nodes break on purpose, the same way many times a day: no node is held for that, no fault is given up.
_OFTEN = "contest = 1000\nstrike_limit = 1e6\nstrike_limit_node = 1e6\n"


@dataclass(frozen=True, slots=True)
class Options:
    """Shape and pace of a simulated cluster; seconds. ``often``: no node is held for breaking again and again."""

    nodes: int = 4
    gpus: int = 8
    cpus: int = 16
    profile: str = "hgx-h100"
    interval: float = 2.0
    prolog_age: float = 1.0
    poll: float = 1.0
    slurm_conf: str = ""
    policy: str = ""
    server: str = ""
    often: bool = True


@dataclass(slots=True)
class SimCluster:
    """One cluster below ``base``; start() brings it up, stop() ends every process of it by its mark."""

    base: Path
    options: Options = field(default_factory=Options)
    lab: SlurmLab = field(init=False)
    hosts: dict[str, SimHost] = field(init=False, default_factory=dict)
    port: int = 0
    _own: dict[str, subprocess.Popen[bytes]] = field(init=False, default_factory=dict)
    _holder: socket.socket | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.base = self.base.resolve()
        extra = "HealthCheckInterval=60\n" + self.options.slurm_conf
        self.lab = SlurmLab(
            self.base,
            self.options.nodes,
            gpus=self.options.gpus,
            cpus=self.options.cpus,
            hooks=self.hooks,
            extra_conf=extra,
            cluster=CLUSTER,
        )
        self.hosts = {
            name: SimHost(self.base / "nodes" / name, name, profile=self.options.profile, cache=self.base / "nvml")
            for name in self.lab.names
        }

    @property
    def hooks(self) -> dict[str, Path]:
        """What Slurm runs, by the key of slurm.conf."""
        names = {"Prolog": "prolog", "Epilog": "epilog", "HealthCheckProgram": "health"}
        return {key: self.base / "hooks" / f"nodevet-{name}" for key, name in names.items()}

    # -- life

    def start(self, told: Callable[[str], None] = lambda _: None) -> None:
        """Bring everything up: hosts, hooks, Slurm, the server, the agents."""
        told(f"generating {self.options.nodes} simulated hosts of {self.options.profile}")
        self._prepare()
        told("starting munge, slurmctld and one slurmd a node")
        self.lab.start()
        self.lab.wait_idle()
        told("starting the central service and one agent a node")
        self.start_server()
        for name in self.lab.names:
            self.start_agent(name)
        self.wait_for(self._all_healthy, 120.0, lambda: f"not every node is healthy: {self.verdicts()}")

    def _prepare(self) -> None:
        self.base.mkdir(mode=0o755, parents=True, exist_ok=True)
        for host in self.hosts.values():
            smi.install(host.create())
        marker = "socket = {b}/agents/%n/agent.sock.hook\nmarks = {b}/agents/%n/marks\nstop_file = {b}/STOP\n"
        conf = self.base / "hook.conf"
        conf.write_text("# simulated cluster\n" + marker.format(b=self.base))
        conf.chmod(0o644)
        build(self.base / "hooks", conf=conf)
        (self.base / "policy.d").mkdir(exist_ok=True)
        if self.options.policy:
            (self.base / "policy.d/sim.toml").write_text(self.options.policy)

    def stop(self) -> None:
        """End agents, server and Slurm, and take mounts away; the files stay."""
        for host in self.hosts.values():
            with suppress(OSError):
                host.close()
        self.lab.stop()
        stop_at(self.base)
        for process in self._own.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=30)
        self._own.clear()
        if self._holder is not None:
            self._holder.close()

    def remove(self) -> None:
        """Delete the files; only after stop()."""
        shutil.rmtree(self.base, ignore_errors=True)

    # -- the central service

    @property
    def url(self) -> str:
        """Where the central service listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        """An administrator's token of this cluster."""
        return (self.base / "server/admin.token").read_text().strip()

    def start_server(self) -> None:
        """Start the central service as SlurmUser and wait until it is ready."""
        home = self.base / "server"
        if not home.exists():
            self._first_start(home)
        argv: list[str | Path] = [sys.executable, "-I", "-m", "daemon", "server", "--config", home / "server.toml"]
        self._spawn("server", argv, user=SERVER_USER)
        self.wait_for(self._ready, 60.0, lambda: f"server is not ready; see {self.base}/log/server.log")

    def _first_start(self, home: Path) -> None:
        home.mkdir(mode=0o750)
        # Held to the end: a restarted service must get its port back, whatever else this machine connects meanwhile.
        (self._holder,) = ports.reserve(1)
        self.port = ports.number(self._holder)
        (home / "port").write_text(str(self.port))
        text = (
            f'[server]\nhost = "127.0.0.1"\nport = {self.port}\ndb = "sqlite:///{home}/nodevet.db"\n'
            f'cluster = "{CLUSTER}"\nslurm_conf = "{self.lab.conf}"\npolicy_dir = "{self.base}/policy.d"\n'
            f"open_reads_on_loopback = true\n[controller]\npoll = {self.options.poll}\n"
            f"{_OFTEN if self.options.often else ''}{self.options.server}"
        )
        (home / "server.toml").write_text(text)
        database = Database(f"sqlite:///{home}/nodevet.db")
        upgrade(database)
        store = Store(database)
        tokens.write(store, home / "admin.token", "admin")
        for name in self.lab.names:
            folder = self.base / "agents" / name
            folder.mkdir(parents=True, exist_ok=True)
            tokens.write(store, folder / "token", "agent", CLUSTER, name)
        database.close()
        user = pwd.getpwnam(SERVER_USER)
        for path in (home, *home.iterdir()):
            os.chown(path, user.pw_uid, user.pw_gid)

    def kill_server(self) -> None:
        """Take the central service away at once."""
        processes.end([self._own["server"].pid], grace=0)
        self._own.pop("server").wait(timeout=30)

    def _ready(self) -> bool:
        try:
            return bool(self.get("health"))
        except CentralError:
            return False

    def central(self) -> Central:
        """A client with the administrator's token."""
        return Central(self.url, self.token, timeout=10.0)

    def get(self, path: str, **query: str | int | bool | None) -> object:
        """Ask the central service for a document."""
        client = self.central()
        try:
            return client.get(path, object, **query)
        finally:
            client.close()

    def post(self, path: str, body: object) -> object:
        """Tell the central service something."""
        client = self.central()
        try:
            return client.post(path, body, object)
        finally:
            client.close()

    def delete(self, path: str) -> None:
        """End something at the central service."""
        client = self.central()
        try:
            client.delete(path, object)
        finally:
            client.close()

    # -- agents

    @property
    def agents(self) -> list[str]:
        """The nodes whose agents we started and did not kill."""
        return [name for name in self.lab.names if f"agent-{name}" in self._own]

    def start_agent(self, name: str) -> None:
        """Start the agent of one node over its simulated host."""
        folder = self.base / "agents" / name
        config = folder / "nodevet.toml"
        if not config.exists():
            config.write_text(self._agent_config(name, folder))
        argv: list[str | Path] = [sys.executable, "-I", "-m", "daemon", "--config", config, "agent"]
        self._spawn(f"agent-{name}", argv)

    def _agent_config(self, name: str, folder: Path) -> str:
        host, pace = self.hosts[name], self.options.interval
        paced = "".join(f"[checks.{check}]\ninterval = {often:g}\n" for check, often in _paced(pace).items())
        return (
            f"# SIMULATED hardware, real agent\n[agent]\ncluster = {json.dumps(CLUSTER)}\nnode = {json.dumps(name)}\n"
            f'socket = "{folder}/agent.sock"\nstate = "{folder}/state"\nmarks = "{folder}/marks"\n'
            f'stop_file = "{self.base}/STOP"\npolicy_dir = "{self.base}/policy.d"\n'
            f'gres_conf = "{self.lab.conf.parent}/gres.conf"\nprolog_age = {self.options.prolog_age}\n'
            f'[central]\nurl = "{self.url}"\ntoken_file = "{folder}/token"\npoll_wait = 10\n'
            f'[host]\nroot = "{host.sysroot}"\nkmsg = "{host.kmsg}"\nnvml_library = "{host.nvml_library}"\n'
            f'simulated = true\n[slurm]\nconf = "{self.lab.conf}"\n'
            f'[remedy]\nreset_gpu = true\nnvidia_smi = "{host.folder}/bin/nvidia-smi"\n{paced}'
        )

    def kill_agent(self, name: str) -> None:
        """Take one agent away at once."""
        process = self._own.pop(f"agent-{name}")
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=30)

    def restart_agent(self, name: str, lines: str = "", *, between: Callable[[], None] = lambda: None) -> None:
        """Take an agent away, do something, and start it with more lines in its configuration."""
        self.kill_agent(name)
        between()
        config = self.base / "agents" / name / "nodevet.toml"
        with config.open("a") as file:
            file.write(lines)
        self.start_agent(name)

    # -- looking

    def verdicts(self) -> dict[str, str]:
        """Each node's verdict as the server has it."""
        listed = self.get("nodes", limit=500)
        items = listed.get("items", []) if isinstance(listed, dict) else []
        return {item["node"]: item["verdict"] for item in items}

    def _all_healthy(self) -> bool:
        seen = self.verdicts()
        return set(seen) == set(self.lab.names) and set(seen.values()) == {"healthy"}

    def wait_for(self, condition: Callable[[], bool], timeout: float, told: Callable[[], str]) -> float:
        """Ask until it holds and return the seconds it took; LabError after ``timeout`` seconds."""
        return waiting.wait_for(condition, timeout, told, (waiting.CommandFailed, CentralError))

    def _spawn(self, name: str, argv: list[str | Path], user: str | None = None) -> None:
        log = self.base / "log" / f"{name}.log"
        env = {processes.MARK: str(self.base)}
        self._own[name] = processes.spawn(argv, env=env, log=log, user=user)


FREQUENT, HURRY = 120.0, 20.0
"""What is asked this often, in seconds, is asked at a simulated cluster's pace; what seldom, so many times as often."""


def _paced(pace: float) -> dict[str, float]:
    """How often checks are asked in a simulated cluster, so that a fault shows in seconds and the rest costs little."""
    from checks.catalog import load

    known = (c for c in load().values() if c.cost == "passive" and not c.per_job and c.each is None)
    return {c.name: pace if c.interval <= FREQUENT else max(pace, c.interval / HURRY) for c in known}


def new_base() -> Path:
    """A fresh, short, readable directory for a cluster."""
    return short_base("nv-sim-")
