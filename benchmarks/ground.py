"""What is measured stands on one short directory: hooks built for it, simulated hosts, agents, ended by process id."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from benchmarks.due_agent import INTERVAL
from daemon.agent.status import Status
from deploy.simcluster import processes
from deploy.simcluster.host import SimHost
from deploy.simcluster.lab_ground import short_base
from deploy.simcluster.slurm_lab import stop_at
from slurm.hook.build import build

CLUSTER = "bench"
GPUS = 8
NAMED = "alone,served,due,due0,idle,idle0"
"""Nodes that are measured one by one; the nodes of the one large job are n1, n2, ..."""
HERE = Path(__file__).resolve().parent
DUE_AGENT = HERE / "due_agent.py"


class NotReady(RuntimeError):
    """Something to be measured did not come up; the text says what and where its log lies."""


@dataclass(frozen=True, slots=True)
class Service:
    """Where the measured central service listens, how to make one node's token there, and how long polls stay open."""

    url: str
    token: Callable[[str], str]
    poll_wait: float = 30.0


@dataclass(slots=True)
class Ground:
    """The directory and everything that was started in it; usable as a context manager through `ground()`."""

    base: Path
    hosts: dict[str, SimHost] = field(default_factory=dict)
    started: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def prepare(self, nodes: int) -> None:
        """Build the hook, promise 8 GPUs to every node and make the folders."""
        for name in ("log", "agents"):
            (self.base / name).mkdir()
        conf = self.base / "hook.conf"
        conf.write_text(f"socket = {self.base}/agents/%n/agent.sock\nmarks = {self.base}/agents/%n/marks\n")
        conf.chmod(0o644)
        build(self.base / "hooks", conf=conf)
        (self.base / "gres.conf").write_text(f"NodeName={NAMED},n[1-{nodes}] Name=gpu File=/dev/nvidia[0-{GPUS - 1}]\n")

    def host(self, name: str) -> SimHost:
        """A simulated host, made at the first call."""
        if name not in self.hosts:
            self.hosts[name] = SimHost(self.base / "hosts" / name, name, cache=self.base / "nvml").create()
        return self.hosts[name]

    # -- agents

    def agent(
        self,
        node: str,
        *,
        host: str = "h0",
        service: Service | None = None,
        due: Sequence[str] = (),
    ) -> None:
        """Start an agent; with ``due`` only those checks, all of them required and stale at almost any time."""
        folder = self.base / "agents" / node
        folder.mkdir(parents=True)
        config = folder / "nodevet.toml"
        config.write_text(self._config(node, folder, self.host(host), service) + _paced(due))
        how = [DUE_AGENT, config] if due else ["-m", "daemon", "--config", config, "agent"]
        self.spawn(f"agent-{node}", [sys.executable, "-I", *how])

    def _config(self, node: str, folder: Path, host: SimHost, service: Service | None) -> str:
        text = (
            f"# SIMULATED hardware, real agent\n[agent]\ncluster = {json.dumps(CLUSTER)}\nnode = {json.dumps(node)}\n"
            f'socket = "{folder}/agent.sock"\nstate = "{folder}/state"\nmarks = "{folder}/marks"\n'
            f'stop_file = "{self.base}/STOP"\npolicy_dir = "{self.base}/policy.d"\n'
            f'gres_conf = "{self.base}/gres.conf"\n'
            f'[host]\nroot = "{host.sysroot}"\nkmsg = "{host.kmsg}"\nnvml_library = "{host.nvml_library}"\n'
            "simulated = true\n"
        )
        if service is None:
            return text
        secret = folder / "token"
        secret.touch(mode=0o600)
        secret.write_text(service.token(node) + "\n")
        return f'{text}[central]\nurl = "{service.url}"\ntoken_file = "{secret}"\npoll_wait = {service.poll_wait:g}\n'

    def spawn(self, name: str, argv: Sequence[str | Path], user: str | None = None) -> int:
        """Start a daemon of this ground; gives its process id."""
        env = {processes.MARK: str(self.base)}
        self.started[name] = processes.spawn(argv, env=env, log=self.base / "log" / f"{name}.log", user=user)
        return self.started[name].pid

    def pid(self, node: str) -> int:
        """The process id of a node's agent."""
        return self.started[f"agent-{node}"].pid

    def status(self, node: str) -> Status | None:
        """What an agent says of itself, None while it does not answer."""
        with suppress(OSError, msgspec.MsgspecError), socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(5.0)
            sock.connect(str(self.base / "agents" / node / "agent.sock"))
            sock.sendall(b"GET /v1/status HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n")
            received = b"".join(iter(lambda: sock.recv(65536), b""))
            return msgspec.json.decode(received.partition(b"\r\n\r\n")[2], type=Status)
        return None

    def wait_warm(self, nodes: Sequence[str], *, due: bool = False, timeout: float = 90.0) -> None:
        """Wait until every check of these agents has answered and each node is healthy; NotReady otherwise."""
        for node in nodes:
            self.wait_for(lambda: self._warm(node, due), timeout, lambda: self._why(node))  # noqa: B023

    def _why(self, node: str) -> str:
        """What keeps an agent from being warm."""
        status = self.status(node)
        if status is None:
            log = (self.base / "log" / f"agent-{node}.log").read_text(errors="replace")
            return f"agent of {node} does not answer: {log[-1500:]}"
        silent = [c.name for c in status.checks if c.age is None]
        worst = [f"{f.code} on {f.target}: {f.message}" for f in status.findings[:5]]
        return f"agent of {node} is {status.verdict}; not asked yet: {silent}; worst findings: {worst}"

    def _warm(self, node: str, due: bool) -> bool:
        status = self.status(node)
        if status is None or not status.checks or any(c.age is None for c in status.checks):
            return False
        return due or status.verdict == "healthy"

    def wait_for(self, condition: Callable[[], bool], timeout: float, told: Callable[[], str]) -> None:
        """Ask until it holds; NotReady after ``timeout`` seconds or when something started here has ended."""
        deadline = time.monotonic() + timeout
        while not condition():
            ended = [name for name, process in self.started.items() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                log = (self.base / "log" / f"{ended[0]}.log").read_text()[-1500:] if ended else ""
                raise NotReady(f"{told()}; ended: {', '.join(ended) or 'nothing'}; logs in {self.base}/log\n{log}")
            time.sleep(0.1)

    def end(self, *names: str) -> None:
        """End some of what was started, with everything below it."""
        chosen = [self.started.pop(name) for name in names]
        processes.end([process.pid for process in chosen])
        for process in chosen:
            process.wait(timeout=10)

    # -- hooks

    def prove_answered(self, least: Mapping[str, int]) -> None:
        """NotReady unless each agent admitted at least so many jobs and no hook went unanswered."""
        for node, wanted in least.items():
            status = self.status(node)
            admitted = status.hooks["admitted"] if status else -1
            marks = list((self.base / "agents" / node / "marks").glob("*"))
            if admitted < wanted or marks or (status and (status.hooks["failed"] or status.marks)):
                raise NotReady(f"{node} admitted {admitted} of {wanted} jobs, {len(marks)} hooks unanswered")

    @property
    def prolog(self) -> str:
        """The hook binary that asks the agent of SLURMD_NODENAME."""
        return str(self.base / "hooks" / "nodevet-prolog")


def _paced(due: Sequence[str]) -> str:
    """What an agent of the benchmarks is asked: a usual node's checks, or only those that are to be due."""
    if not due:
        return '[checks.mount]\npaths = ["/scratch"]\n'  # the eighth lane
    from checks.catalog import load

    named = [f"[checks.{name}]\ninterval = {INTERVAL}\n" for name in due]
    return "".join([*named, *(f"[checks.{name}]\nenabled = false\n" for name in load() if name not in due)])


def job_env(node: str, job: int, *, nodelist: str = "", nodes: int = 1, gpus: bool = False) -> dict[str, str]:
    """What slurmd tells a Prolog about a job."""
    env = {
        "SLURM_SCRIPT_CONTEXT": "prolog_slurmd", "SLURM_CLUSTER_NAME": CLUSTER, "SLURMD_NODENAME": node,
        "SLURM_JOB_ID": str(job), "SLURM_JOBID": str(job), "SLURM_JOB_RESTART_COUNT": "0", "SLURM_JOB_UID": "1001",
        "SLURM_JOB_USER": "user", "SLURM_JOB_GID": "1001", "SLURM_JOB_PARTITION": "batch", "SLURM_UID": "1001",
        "SLURM_JOB_NODELIST": nodelist or node, "SLURM_NODELIST": nodelist or node,
        "SLURM_JOB_NUM_NODES": str(nodes), "SLURM_CONF": "/etc/slurm/slurm.conf",
        "SLURM_JOB_WORK_DIR": "/home/user/run", "SLURM_JOB_CONSTRAINTS": "(null)",
    }  # fmt: skip
    devices = ",".join(map(str, range(GPUS)))
    return {**env, "SLURM_JOB_GPUS": devices, "CUDA_VISIBLE_DEVICES": devices} if gpus else env


@contextmanager
def ground(nodes: int) -> Iterator[Ground]:
    """A fresh ground, with every process of it ended and its files removed afterwards."""
    made = Ground(short_base("nv-bn-"))
    try:
        made.prepare(nodes)
        yield made
    finally:
        stop_at(made.base)
        for process in made.started.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=5)
        shutil.rmtree(made.base, ignore_errors=True)
