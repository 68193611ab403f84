"""A cluster whose hooks stand in chains with somebody else's scripts, and what each did is written down."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from deploy.simcluster import lab_ground
from deploy.simcluster.cluster import Options, SimCluster, new_base
from slurm.config import parse_version
from tests.flow.flow import NO_BELIEF, WIDE_GUARD, Flow, auth

# Slurm runs a chain in reverse order: 90, 50, 10. The site's scripts note that they ran, and hold or fail as told.
SITE = """\
#!/bin/sh
read -r parent < /proc/$PPID/comm
/usr/bin/env > {base}/chain/env.{name}.$SLURM_JOB_ID.$SLURMD_NODENAME
echo "$SLURM_JOB_ID.${{SLURM_JOB_RESTART_COUNT:-x}} $SLURMD_NODENAME {name} $parent" >> {base}/chain/log
while [ -e {base}/chain/hold.{name}.$SLURMD_NODENAME ]; do /bin/sleep 0.05; done
if [ -e {base}/chain/fail.{name}.$SLURMD_NODENAME ]; then exit 1; fi
exit 0
"""
FIRST, LAST = "90-site", "10-site"
# So long that between two of our own looks only a Prolog sees a fault.
INTERVAL = 600.0


@dataclass(slots=True)
class Bench(Flow):
    """The cluster under test with words for what the rows of its tables need."""

    started: dict[str, subprocess.Popen[str]] = field(default_factory=dict)

    @property
    def release(self) -> tuple[int, int, int]:
        """The Slurm that runs here."""
        found = parse_version(self.lab.run(["scontrol", "--version"]).stdout)
        assert found is not None
        return found

    @property
    def chain(self) -> Path:
        """Where the site's scripts note what they did and look for what they are to do."""
        return self.cluster.base / "chain"

    def ran(self, job: int, kind: str = "prolog") -> list[tuple[str, str, str]]:
        """What the site's scripts of one job noted, in order: attempt, node, script."""
        rows = [line.split() for line in (self.chain / "log").read_text().splitlines()]
        return [
            (attempt, node, name.removeprefix(f"{kind}-"))
            for attempt, node, name, *_ in rows
            if attempt.partition(".")[0] == str(job) and name.startswith(f"{kind}-")
        ]

    def scripts(self, job: int) -> set[tuple[str, str]]:
        """Node and name of each of the site's prolog scripts that a job's nodes called."""
        return {(node, name) for _, node, name in self.ran(job)}

    def called(self, job: int) -> set[str]:
        """The nodes whose prolog of a job has begun."""
        return {node for node, _ in self.scripts(job)}

    def without_prolog(self, job: int) -> set[str]:
        """The nodes on which `nodevet coverage` says that a job began without a prolog."""
        coverage = self.cluster.get("coverage")
        assert isinstance(coverage, dict)
        rows = coverage["jobs"]["newest"]
        return {row["node"] for row in rows if row["job_id"] == job and row["outcome"] == "no_prolog_report"}

    def parents(self, job: int) -> set[str]:
        """Which daemon ran the prologs of a job."""
        rows = [line.split() for line in (self.chain / "log").read_text().splitlines()]
        return {row[3] for row in rows if row[0].partition(".")[0] == str(job) and row[2].startswith("prolog-")}

    @contextmanager
    def told(self, what: str, script: str, *nodes: str) -> Iterator[None]:
        """Let the site's script ``hold`` or ``fail`` on these nodes for a while."""
        files = [self.chain / f"{what}.{script}.{node}" for node in nodes]
        for file in files:
            file.touch()
        try:
            yield
        finally:
            for file in files:
                file.unlink(missing_ok=True)

    def start(self, command: str, *options: str, script: str = "hostname") -> str:
        """Begin an srun or salloc that a user waits for; ended() tells how it went."""
        name = f"{command}-{len(self.started)}-{time.monotonic_ns() % 10**6}"
        argv = [command, "-J", name, *options, "sh", "-c", script]
        self.started[name] = subprocess.Popen(
            argv,
            env=self.lab.env,
            cwd=self.lab.base / "jobs",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return name

    def ended(self, name: str, timeout: float = 60.0) -> tuple[int, str, str]:
        """Exit status, output and complaints of a command begun before."""
        process = self.started.pop(name)
        try:
            out, complaints = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, complaints = process.communicate()
            raise AssertionError(f"{name} does not end: {out!r} {complaints!r} {self.jobs_left()}") from None
        return process.returncode, out, complaints

    def gone(self, name: str) -> str:
        """The output of a command whose job is over; a salloc revoked in the wrong moment waits for ever (22.05)."""
        process = self.started.pop(name)
        try:
            return process.communicate(timeout=10)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            return process.communicate()[0]

    def number(self, name: str) -> int:
        """The job that a command begun before has, once it has one."""
        argv = ["squeue", "-h", "-t", "all", "-n", name, "-O", "JobID:20"]
        self.wait(lambda: bool(self.lab.run(argv).stdout.split()), 30, f"{name} has no job")
        return int(self.lab.run(argv).stdout.split()[0])

    def minors(self, job: int, count: int, restart: int = 0) -> dict[str, tuple[int, ...] | None]:
        """The device minors that each node's prolog found for one attempt."""
        reports = self.answers(job, count, restart)
        return {n: r.job.gpu_minors if r.job else None for n, r in sorted(reports.items())}

    @property
    def scheduling(self) -> str:
        """The SchedulerParameters that the cluster was made with."""
        return "nohold_on_prolog_fail,bf_interval=1,sched_interval=1,batch_sched_delay=0"

    def set(self, key: str, value: str) -> None:
        """Let the running Slurm take another value of a setting."""
        rows = [row for row in self.lab.conf.read_text().splitlines() if not row.startswith(f"{key}=")]
        self.lab.conf.write_text("\n".join([*rows[:1], f"{key}={value}", *rows[1:], ""]))
        self.lab.run(["scontrol", "reconfigure"])

    def use_flags(self, flags: str) -> None:
        """Let the running Slurm take other PrologFlags, and every agent learn what they mean."""
        rows = [row for row in self.lab.conf.read_text().splitlines() if not row.startswith("PrologFlags=")]
        line = [f"PrologFlags={flags}"] if flags else []
        self.lab.conf.write_text("\n".join([*rows[:1], *line, *rows[1:], ""]))
        since = time.time()
        self.lab.run(["scontrol", "reconfigure"])
        self.cluster.kill_server()
        self.cluster.start_server()
        for name in self.names:

            def learned(name: str = name) -> bool:
                limits = self.status(name).uplink.limits
                if limits is None or limits.read_at is None or limits.read_at.timestamp() < since:
                    self.cluster.post(f"nodes/sim/{name}/check", {"kind": "check", "checks": ["memory"]})
                    return False
                return True

            self.wait(learned, 40, lambda name=name: f"{name} has {self.status(name).uplink.limits}")  # type: ignore[misc]


def _chain(base: Path) -> str:
    """Make the directories of both chains, and give their slurm.conf lines."""
    (base / "chain").mkdir()
    (base / "chain/log").touch()
    lines = ""
    for kind in ("prolog", "epilog"):
        folder = base / f"{kind}.d"
        folder.mkdir()
        for name in (FIRST, LAST):
            script = folder / name
            script.write_text(SITE.format(base=base, name=f"{kind}-{name}"))
            script.chmod(0o755)
        (folder / f"50-nodevet-{kind}").symlink_to(base / f"hooks/nodevet-{kind}")
        lines += f"{kind.title()}={folder}/*\n"
    return lines


@contextmanager
def bench(nodes: int, *, cred_expire: int = 8, slurm_conf: str = "", gpus: int = 8) -> Iterator[Bench]:
    """A cluster that is up for the tests of one file and gone without a trace after them."""
    if reason := lab_ground.cannot_run():
        pytest.skip(reason)
    base = new_base()
    conf = auth(base, cred_expire) + _chain(base) + slurm_conf
    options = Options(
        nodes=nodes, gpus=gpus, interval=INTERVAL, prolog_age=1.0, slurm_conf=conf, server=NO_BELIEF + WIDE_GUARD
    )
    cluster = SimCluster(base, options)
    try:
        cluster.start()
        made = Bench(cluster)
        made.limits_known()
        yield made
        for process in made.started.values():
            with suppress(OSError):
                process.kill()
            process.communicate()
    finally:
        cluster.stop()
    shutil.rmtree(base)
