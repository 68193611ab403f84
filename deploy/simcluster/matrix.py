"""The matrix plays one scenario a node on a real Slurm and shows how each ended beside how it must end."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from daemon.central import CentralError
from daemon.cli.output import table
from deploy.simcluster.cluster import Options, SimCluster
from deploy.simcluster.lab_ground import LabError
from deploy.simcluster.rounds import between_rounds

OURS = "nodevet: "
FOREIGN = "ADMIN: fan 3 is noisy (alice)"
# One fault a node within minutes, and each is to be seen by itself: what the guard does is tried elsewhere.
SERVER = (
    "belief = 0.0\n[guard]\ndrained_least = 99\nhourly_least = 99\nalike_least = 99\nfloor_share = 0.0\n"
    "group_least = 99\nrollout_least = 99\nwhole_share = 1.0\n"
)
# The checks that see a broken GPU, each by itself.
WATCHING = frozenset({"gpu_health", "gpu_remap", "kernel_xid"})
CRED_EXPIRE = 8
# This long a node is watched on which nothing must happen.
QUIET_SECONDS = 12.0
Tell = Callable[[str], None]


class Outcome(msgspec.Struct, frozen=True):
    """How a scenario ends: whether the node is drained, whose reason it has, the job's state ('-': no job)."""

    drained: bool
    owner: str
    job: str


class Row(msgspec.Struct, frozen=True):
    """One scenario on one release; ``state`` is the node's as Slurm writes it."""

    scenario: str
    release: str
    node: str
    state: str
    reason: str
    observed: Outcome
    expected: Outcome
    seconds: float
    passed: bool
    trouble: str = ""


class Result(msgspec.Struct, frozen=True):
    """What ``nodevet sim matrix --json`` prints."""

    passed: bool
    release: str
    rows: list[Row]
    simulated: bool = True


@dataclass(frozen=True, slots=True)
class Scenario:
    """A name, what must come out, and what is done on a node; it gives the number of the job, if there is one."""

    name: str
    expected: Outcome
    play: Callable[[Matrix, str], int | None]


@dataclass(slots=True)
class Matrix:
    """Plays scenarios on one cluster with a node for each."""

    cluster: SimCluster
    tell: Tell
    release: str = ""
    rows: list[Row] = field(default_factory=list)

    def run(self, scenarios: Iterable[Scenario]) -> Result:
        """Bring the cluster up and play; a scenario that fails does not keep the others from being played."""
        self.cluster.start(lambda text: self.tell(f"  {text}"))
        self.release = release_of(self.cluster)
        self._limits_known()
        for node, scenario in zip(self.cluster.lab.names, scenarios, strict=False):
            self.tell(f"  {scenario.name} on {node} …")
            self.rows.append(self._one(scenario, node))
        return Result(bool(self.rows) and all(r.passed for r in self.rows), self.release, self.rows)

    def _one(self, scenario: Scenario, node: str) -> Row:
        begun, trouble, job = time.monotonic(), "", None
        try:
            job = scenario.play(self, node)
            self._settled(node, job, scenario.expected)
        except (LabError, CentralError) as error:
            trouble = str(error)[:300]
        seconds = time.monotonic() - begun
        state, reason = self.cluster.lab.node_state(node), self.cluster.lab.node_reason(node)
        seen = Outcome("DRAIN" in state, owner(reason), "-" if job is None else self.cluster.lab.job_state(job))
        passed = seen == scenario.expected and not trouble
        return Row(
            scenario.name, self.release, node, state, reason[:120], seen, scenario.expected, round(seconds, 1), passed,
            trouble,
        )  # fmt: skip

    def _settled(self, node: str, job: int | None, expected: Outcome) -> None:
        """Wait for what must come; where nothing must happen to a node, for a time in which it would."""
        lab = self.cluster.lab
        if job is not None:
            lab.wait_job(job, expected.job, timeout=60)
        if expected.drained:
            self.wait(lambda: "DRAIN" in lab.node_state(node), 40, f"{node} was not drained")
            self.wait(lambda: owner(lab.node_reason(node)) == expected.owner, 20, f"{node}: {lab.node_reason(node)!r}")
        if not expected.drained or expected.owner != "ours":
            time.sleep(QUIET_SECONDS)

    # -- what scenarios are made of

    def wait(self, condition: Callable[[], bool], timeout: float, otherwise: str) -> None:
        """Ask until it holds; LabError after ``timeout`` seconds."""
        self.cluster.wait_for(condition, timeout, lambda: otherwise)

    def inject(self, node: str, fault: str, **target: int | str) -> None:
        """Break the host."""
        self.cluster.hosts[node].inject(fault, **target)

    def between_looks(self, node: str) -> None:
        """Wait for a moment when the node's GPUs were looked at a while ago and will not be for a while."""
        between_rounds(self.cluster, node, WATCHING)

    def batch(self, node: str, *options: str) -> int:
        """Submit a script that needs this node."""
        return self.cluster.lab.sbatch("-w", node, "--gres=gpu:4", *options, script="hostname")

    def interactive(self, command: str, node: str) -> int:
        """Run srun or salloc on the node to its end, and find the job's number."""
        name = f"{command}-{node}"
        argv = [command, "-J", name, "-w", node, "--gres=gpu:1", "hostname"]
        self.cluster.lab.run(argv, check=False, timeout=60)
        listed = self.cluster.lab.run(["squeue", "-h", "-t", "all", "-n", name, "-O", "JobID:20"]).stdout.split()
        if len(listed) != 1:
            raise LabError(f"{command} left {len(listed)} jobs, expected 1")
        return int(listed[0])

    def scontrol(self, *words: str) -> None:
        """What an administrator types."""
        self.cluster.lab.run(["scontrol", *words])

    def _limits_known(self) -> None:
        """The agents have heard from the server what Slurm allows them."""

        def known() -> bool:
            said = self.cluster.get("coverage")
            limits = said.get("limits") if isinstance(said, dict) else None
            return isinstance(limits, dict) and bool(limits.get("read_at"))

        self.wait(known, 30, "server has not read slurm's limits")


def owner(reason: str) -> str:
    """Whose reason it is: ours, slurm's own, somebody else's, or none."""
    if not reason:
        return "none"
    if reason.startswith(OURS):
        return "ours"
    return "slurm" if re.match(r"(Prolog|Epilog) error|Kill task failed|Not responding", reason) else "other"


def release_of(cluster: SimCluster) -> str:
    """The release of the Slurm that runs, such as 22.05."""
    found = re.search(r"(\d+\.\d+)\.", cluster.lab.run(["scontrol", "--version"]).stdout)
    return found[1] if found else "unknown"


def options(base: Path, nodes: int) -> Options:
    """A cluster with a node for each scenario, whose looks are 15 s apart and whose refused jobs wait 9 s."""
    # That time bounds what a Prolog may take, too.
    auth = f"AuthInfo=socket={base}/run/munge.sock,cred_expire={CRED_EXPIRE}\n"
    return Options(nodes=nodes, interval=15.0, prolog_age=1.0, slurm_conf=auth, server=SERVER)


def print_matrix(rows: Iterable[Row]) -> None:
    """The table for people: what was seen, and what was expected where that differs."""
    shown = []
    for row in rows:
        wanted = "as expected" if row.passed else f"EXPECTED {row.expected}; {row.trouble}"
        shown.append(
            (row.scenario, row.release, row.state, row.observed.owner, row.observed.job, f"{row.seconds:.1f}", wanted)
        )
    table(("SCENARIO", "SLURM", "NODE", "REASON OF", "JOB", "SECONDS", ""), shown)
