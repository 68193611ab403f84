"""A lab is a real Slurm cluster: private munge, one slurmctld and any number of slurmd on this machine."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from deploy.simcluster import lab_ground, processes, slurm_conf, waiting
from deploy.simcluster import ports as free_ports
from deploy.simcluster.lab_ground import LabError
from deploy.simcluster.waiting import CommandFailed


class SlurmLab:
    """A Slurm cluster of ``nodes`` nodes n1, n2, ... below ``base``; usable as a context manager.

    ``hooks`` maps slurm.conf keys (Prolog, Epilog, HealthCheckProgram, ...) to programs. ``extra_conf`` lines replace
    settings of the same key. ``gpu_files`` is the path of a GPU's device file without its digits and may hold
    ``{node}``; by default all nodes share clones of /dev/null.
    """

    def __init__(
        self,
        base: Path,
        nodes: int,
        *,
        gpus: int = 8,
        hooks: Mapping[str, Path] | None = None,
        extra_conf: str = "",
        cluster: str = "sim",
        cpus: int = 16,
        gpu_files: str | None = None,
    ) -> None:
        if reason := lab_ground.cannot_run():
            raise LabError(reason)
        self.base = base.resolve()
        self.names = [f"n{index}" for index in range(1, nodes + 1)]
        self.cluster = cluster
        self.gpus = gpus
        self._cpus = cpus
        self._hooks = dict(hooks or {})
        self._extra = extra_conf
        self._gpu_files = gpu_files or f"{self.base}/dev/nvidia"
        self._own_devices = gpu_files is None
        self._reserved: list[socket.socket] = []
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def conf(self) -> Path:
        """The slurm.conf in force."""
        return self.base / "etc/slurm.conf"

    @property
    def env(self) -> dict[str, str]:
        """What a client of this cluster needs in its environment."""
        return {"SLURM_CONF": str(self.conf), processes.MARK: str(self.base), "PATH": processes.PATH}

    def __enter__(self) -> SlurmLab:
        try:
            self.start()
            self.wait_idle()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- life

    def start(self) -> None:
        """Write the configuration and start munged, slurmctld and every slurmd."""
        lab_ground.prepare(self.base, devices=self.gpus if self._own_devices else 0)
        self._reserved = free_ports.reserve(1 + len(self.names))
        self.configure(extra_conf=self._extra)
        self._start_munged()
        self.start_slurmctld()
        for name in self.names:
            self.start_slurmd(name)

    def configure(
        self, *, hooks: Mapping[str, Path] | None = None, extra_conf: str | None = None, reconfigure: bool = False
    ) -> None:
        """Write slurm.conf and gres.conf anew; with ``reconfigure`` the running daemons read them."""
        self._hooks = self._hooks if hooks is None else dict(hooks)
        self._extra = self._extra if extra_conf is None else extra_conf
        text = slurm_conf.slurm_conf(
            self.base,
            nodes=self.names,
            ports=[free_ports.number(holder) for holder in self._reserved],
            cluster=self.cluster,
            gpus=self.gpus,
            cpus=self._cpus,
            hooks=self._hooks,
            extra=self._extra,
        )
        self.conf.write_text(text)
        (self.conf.parent / "gres.conf").write_text(slurm_conf.gres_conf(self.names, self.gpus, self._gpu_files))
        if reconfigure:
            self.run(["scontrol", "reconfigure"])

    def start_slurmctld(self) -> None:
        """Start the controller as SlurmUser; it keeps what it knew before it ended."""
        self._spawn("slurmctld", ["slurmctld", "-D", "-f", self.conf], user="slurm")

    def start_slurmd(self, name: str, *, booted: bool = False) -> None:
        """Start the daemon of one node; ``booted``: it says that the node has just been booted."""
        (self.base / "spool" / name).mkdir(exist_ok=True)
        words = ["-b"] if booted else []
        self._spawn(f"slurmd-{name}", ["slurmd", "-D", "-f", self.conf, "-N", name, *words])

    def kill_slurmctld(self) -> None:
        """Take the controller away at once, as a crash does: what it had not saved yet (a few seconds) is lost."""
        self._kill("slurmctld")

    def saved(self, timeout: float = 30.0) -> None:
        """Wait until the controller has every node's state of now on disk, so that a crash does not lose it."""
        file = self.base / "state" / "node_state"
        asked = time.time()
        # A change makes the controller save; what it saves is of a moment after this change.
        self.run(["scontrol", "update", f"NodeName={self.names[0]}", f"Comment=saved at {asked}"])
        self.wait_for(lambda: file.exists() and file.stat().st_mtime > asked, timeout, lambda: f"{file} is not written")

    def restart_slurmctld(self) -> None:
        """End the controller in an orderly way and start it again."""
        processes.end([self.pid("slurmctld")], grace=15)
        self.start_slurmctld()

    def kill_slurmd(self, name: str) -> None:
        """Take one node's daemon away at once; its jobs' stepds live on."""
        self._kill(f"slurmd-{name}")

    def pid(self, daemon: str) -> int:
        """Return the process id of ``slurmctld``, ``munged`` or ``slurmd-n1``.

        The pid file counts first: from 24.11 on slurmctld becomes another process when it reconfigures.
        """
        try:
            pid = int((self.base / "pid" / f"{daemon}.pid").read_text())
        except (OSError, ValueError):
            pid = 0
        if pid and processes.alive(pid) and pid in processes.of_lab(self.base):
            return pid
        if daemon in self._started:
            return self._started[daemon].pid
        raise LabError(f"{daemon} was never started")

    def stop(self) -> None:
        """End every process of the lab, stepds and tasks included, and free the ports; the files stay."""
        stop_at(self.base)
        for process in self._started.values():
            process.wait(timeout=30)
        self._started.clear()
        for holder in self._reserved:
            holder.close()
        self._reserved.clear()

    # -- use

    def run(
        self, argv: Sequence[str], *, timeout: float = 30.0, check: bool = True, user: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command against this cluster, as ``user`` if given; CommandFailed when it fails and ``check``."""
        try:
            done = subprocess.run(
                list(argv),
                env=self.env,
                cwd=self.base / "jobs",
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
                user=user,
                group=None if user is None else processes.group_of(user),
                extra_groups=None if user is None else [],
            )
        except subprocess.TimeoutExpired as late:
            raise CommandFailed(f"{' '.join(argv)} did not end in {timeout:g} s") from late
        if check and done.returncode != 0:
            raise CommandFailed(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr.strip()}")
        return done

    def sbatch(self, *options: str, script: str = "exit 0", user: str | None = None) -> int:
        """Submit a shell script and return its job id; its output lies in ``jobs/slurm-ID.out``."""
        argv = ["sbatch", "--parsable", *options, f"--wrap={script}"]
        return int(self.run(argv, user=user).stdout.split(";")[0])

    def node_state(self, name: str) -> str:
        """Return the state of a node as scontrol writes it, such as ``IDLE+DRAIN``."""
        return _field("State", self._show_node(name))

    def node_reason(self, name: str) -> str:
        """Return the whole reason line of a node with its ``[user@time]``, or an empty text."""
        return _field("Reason", self._show_node(name))

    def job_state(self, job: int) -> str:
        """Return the state of a job such as ``PENDING``; finished ones are known for MinJobAge (300 s)."""
        return self.run(["squeue", "-h", "-t", "all", "-j", str(job), "-o", "%T"]).stdout.strip()

    def states(self) -> dict[str, str]:
        """Return the compact state of every node as sinfo writes it (``idle``, ``drain``, ``idle*``)."""
        done = self.run(["sinfo", "-h", "-N", "-o", "%N %t"], check=False)
        return dict(pair for line in done.stdout.splitlines() if len(pair := line.split()) == 2)

    def wait_idle(self, timeout: float = 60.0) -> None:
        """Wait until every node is idle."""

        def ready() -> bool:
            states = self.states()
            return len(states) == len(self.names) and set(states.values()) == {"idle"}

        self.wait_for(ready, timeout, lambda: f"nodes are not all idle: {self.states()}; logs in {self.base}/log")

    def wait_job(self, job: int, *states: str, timeout: float = 60.0) -> str:
        """Wait until a job is in one of ``states`` and return that state."""
        self.wait_for(
            lambda: self.job_state(job) in states,
            timeout,
            lambda: f"job {job} is {self.job_state(job)}, awaited {' or '.join(states)}",
        )
        return self.job_state(job)

    def wait_for(self, condition: Callable[[], bool], timeout: float, told: Callable[[], str]) -> None:
        """Ask ``condition`` until it holds; raise LabError with ``told()`` after ``timeout`` seconds."""
        waiting.wait_for(condition, timeout, told)

    # -- inside

    def _show_node(self, name: str) -> str:
        return self.run(["scontrol", "show", "node", name]).stdout

    def _spawn(self, daemon: str, argv: Sequence[str | Path], user: str | None = None) -> None:
        if before := self._started.get(daemon):
            before.wait(timeout=30)  # reaps what was ended by process id
        log = self.base / "log" / f"{daemon}.stderr"
        self._started[daemon] = processes.spawn(argv, env=self.env, log=log, user=user)

    def _kill(self, daemon: str) -> None:
        processes.end([self.pid(daemon)], grace=0)

    def _start_munged(self) -> None:
        run, munge = self.base / "run", self.base / "munge"
        key = lab_ground.munge_key(munge)
        argv = ["munged", "--foreground", "--num-threads=2", f"--key-file={key}", f"--socket={run}/munge.sock"]
        argv += [f"--pid-file={run}/munged.pid", f"--log-file={munge}/munged.log", f"--seed-file={munge}/munged.seed"]
        self._spawn("munged", argv, user="munge")
        probe = ["munge", "-n", "-S", f"{run}/munge.sock"]
        self.wait_for(
            lambda: self.run(probe, check=False).returncode == 0,
            30,
            lambda: f"munged does not answer; see {self.base}/log/munged.stderr",
        )


def stop_at(base: Path) -> None:
    """End every process of the lab at ``base``, whoever started it."""
    base = base.resolve()
    processes.end(processes.of_lab(base), grace=2)
    # A stepd or a hook that was being born while the others were ended.
    stubborn = processes.end(processes.of_lab(base), grace=0)
    if stubborn:
        raise LabError(f"processes {sorted(stubborn)} of {base} do not end (hung in the kernel?)")


def _field(key: str, text: str) -> str:
    match = re.search(rf"\b{key}=(.*?)(?=\s+[A-Z]\w+=|$)", text, re.MULTILINE)
    return match.group(1).strip() if match else ""
