"""A stage is one running cluster with the words that scenarios are written in."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from api.ports import DrainView
from api.routes.shapes import Coverage, NodeDetail, Page
from api.store.views import IncidentView, ReportView
from daemon.agent.status import Status
from daemon.central import CentralError
from daemon.cli.local import get
from daemon.cli.output import Refused, Unreachable
from deploy.simcluster.cluster import SimCluster
from deploy.simcluster.host import SimHost
from deploy.simcluster.lab_ground import LabError
from deploy.simcluster.matrix.rows import out_of_service, owner
from deploy.simcluster.rounds import between_rounds
from deploy.simcluster.slurm_lab import SlurmLab

# The checks that see a broken GPU, each by itself.
WATCHING = frozenset({"gpu_health", "gpu_remap", "kernel_xid"})
Tell = Callable[[str], None]
T = TypeVar("T")


@dataclass(slots=True)
class Stage:
    """One cluster; several scenarios may use it at once, each on nodes of its own."""

    cluster: SimCluster
    release: str = ""
    ended: threading.Event = field(default_factory=threading.Event)
    mounted: list[Path] = field(default_factory=list)

    @property
    def lab(self) -> SlurmLab:
        """The cluster's Slurm."""
        return self.cluster.lab

    # -- life

    def small_disk(self, folder: Path) -> None:
        """Mount a file system without a byte left over a folder, until the stage is tidied."""
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "full", str(folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise LabError(f"no small file system at {folder}: {done.stderr.strip()}")
        self.mounted.append(folder)
        (folder / "filler").write_bytes(bytes(64 << 10))

    def tidy(self) -> None:
        """Take away what was mounted; the cluster has ended."""
        while self.mounted:
            subprocess.run(["umount", "--lazy", str(self.mounted.pop())], capture_output=True, check=False)

    # -- waiting

    def wait(self, condition: Callable[[], bool], timeout: float, otherwise: str | Callable[[], str]) -> float:
        """Ask until it holds; LabError after ``timeout`` seconds, or when the stage is taken down meanwhile."""

        def holds() -> bool:
            if self.ended.is_set():
                raise LabError("the cluster is being taken down")
            with suppress(Unreachable, Refused, CentralError):
                return condition()
            return False

        return self.cluster.wait_for(holds, timeout, otherwise if callable(otherwise) else lambda: otherwise)

    def drained(self, node: str, by: str = "ours", timeout: float = 60.0, *, other_than: str = "") -> str:
        """Wait until a node is drained with this owner's reason, a new one where a former is given; the reason."""

        def seen() -> bool:
            state, reason = self.state(node)
            return "DRAIN" in state and owner(reason, state) == by and reason != other_than

        self.wait(seen, timeout, lambda: f"{node} was not drained ({by}): {' '.join(self.state(node))}")
        return self.lab.node_reason(node)

    def job(self, job: int, state: str, timeout: float = 60.0) -> None:
        """Wait until a job is in a state."""
        seen = self.lab.job_state
        self.wait(lambda: seen(job) == state, timeout, lambda: f"job {job} is {seen(job)}, awaited {state}")

    def back(self, node: str, timeout: float = 60.0) -> None:
        """Wait until a node is in service again."""
        self.wait(lambda: self.in_service(node), timeout, lambda: f"{node} is not back: {' '.join(self.state(node))}")

    def known(self, node: str, verdict: str = "faulty", timeout: float = 45.0) -> None:
        """Wait until the central service has this verdict of a node."""

        def said() -> str:
            return self.cluster.verdicts().get(node, "unheard of")

        self.wait(lambda: said() == verdict, timeout, lambda: f"{node} is {said()}, expected {verdict}")

    def well(self, node: str, timeout: float = 90.0) -> None:
        """Wait until the central service knows of no fault of the node any more; warnings may stay."""
        verdicts = self.cluster.verdicts
        self.wait(lambda: verdicts().get(node) in ("healthy", "degraded"), timeout, f"{node} does not get well")

    def steps(self, count: int = 3) -> None:
        """Wait until the central service has read Slurm ``count`` times more: what it wanted to do is done by then."""
        for _ in range(count):
            before = time.monotonic()

            def again(before: float = before) -> bool:
                age = self.counters()["slurm_age_seconds"]
                return 0 <= age < time.monotonic() - before

            self.wait(again, 40, "the central service does not read slurm")

    def between_looks(self, node: str, watching: Collection[str] = WATCHING) -> None:
        """Wait for a moment when the node's GPUs were looked at a while ago and will not be for a while."""
        between_rounds(self.cluster, node, watching)

    def connected(self) -> None:
        """Wait until every agent that runs knows Slurm's limits and is in touch with the central service."""
        for node in self.cluster.agents:
            self.wait(partial(self._in_touch, node), 90, f"agent of {node} is not in touch")

    def _in_touch(self, node: str) -> bool:
        uplink = self.status(node).uplink
        return uplink.limits is not None and uplink.state == "connected"

    # -- looking

    def state(self, node: str) -> tuple[str, str]:
        """A node's state and reason as scontrol writes them."""
        return self.lab.node_state(node), self.lab.node_reason(node)

    def in_service(self, node: str) -> bool:
        """Whether jobs can start on a node."""
        state = self.lab.node_state(node)
        return not out_of_service(state) and "NOT_RESPONDING" not in state and not state.startswith("UNKNOWN")

    def where(self, node: str) -> str:
        """A node in one word: in service, or who keeps it out."""
        state, reason = self.state(node)
        return f"drained by {owner(reason, state)}" if out_of_service(state) else "in service"

    def status(self, node: str) -> Status:
        """What an agent says of itself."""
        socket = str(self.cluster.base / "agents" / node / "agent.sock")
        return msgspec.json.decode(get(socket, "/v1/status"), type=Status)

    def counters(self) -> dict[str, float]:
        """What the central service counts for `nodevet coverage`."""
        coverage = self.cluster.get("coverage")
        found = coverage.get("counters", {}) if isinstance(coverage, dict) else {}
        return {key: float(value) for key, value in found.items()}

    def missed(self, cause: str) -> int:
        """How many starts of jobs the central service counts as not answered in full for this cause."""
        coverage = self.cluster.get("coverage")
        return msgspec.convert(coverage, Coverage, strict=False).jobs.causes.get(cause, 0)

    def incidents(self, node: str, *, of_all: bool = False) -> set[str]:
        """The codes of a node's open incidents, or with ``of_all`` of those that speak of no single node."""
        items = self._rows("incidents", Page[IncidentView], limit=500)
        return {i.code for i in items if i.closed_at is None and i.node == ("" if of_all else node)}

    def opened(self, node: str, code: str, *, of_all: bool = False) -> None:
        """Wait for an open incident."""

        def told() -> str:
            return f"no incident {code} of {node}: {sorted(self.incidents(node, of_all=of_all))}"

        self.wait(lambda: code in self.incidents(node, of_all=of_all), 45, told)

    def way_out(self, node: str) -> str:
        """What ends a node's drain as the central service has it, empty without a drain."""
        return next((d.exit for d in self._rows("drains", Page[DrainView]) if d.node == node), "")

    def found(self, node: str, code: str) -> str:
        """Status and blame of a code that the central service holds of a node, "absent" without it."""
        detail = msgspec.convert(self.cluster.get(f"nodes/sim/{node}"), NodeDetail, strict=False)
        return next((f"{f.status}/{f.blame}" for f in detail.findings if f.code == code), "absent")

    def _rows(self, path: str, page: type[Page[T]], **query: int) -> list[T]:
        return msgspec.convert(self.cluster.get(path, **query), page, strict=False).items

    def decisions(self, job: int) -> str:
        """What the prologs of a job decided and why, as far as reported; for a row that came out otherwise."""
        with suppress(CentralError):
            rows = self._rows(f"jobs/sim/{job}", Page[ReportView])
            return "; ".join(f"{r.node} {r.decision.allowed}: {r.decision.why}" for r in rows if r.decision)
        return ""

    def finds(self, node: str, code: str, timeout: float = 90.0) -> None:
        """Wait until the central service holds this code of a node."""
        self.wait(lambda: self.found(node, code) != "absent", timeout, f"{code} of {node} is not found")

    # -- doing

    def host(self, node: str) -> SimHost:
        """A node's simulated host."""
        return self.cluster.hosts[node]

    def inject(self, node: str, fault: str, **target: int | float | str) -> None:
        """Break the host."""
        self.host(node).inject(fault, **target)

    def ask(self, path: str, **body: object) -> None:
        """Do through the central service what a person does with the command."""
        self.cluster.post(path, body)

    def scontrol(self, *words: str) -> None:
        """What an administrator types."""
        self.lab.run(["scontrol", *words])

    def batch(self, *nodes: str, options: tuple[str, ...] = ()) -> int:
        """Submit a script that needs these nodes and leaves a line for each time it starts."""
        script = "echo $SLURM_RESTART_COUNT >> ran.$SLURM_JOB_ID"
        where = ("-w", ",".join(nodes), f"-N{len(nodes)}")
        return self.lab.sbatch(*where, "--gres=gpu:4", *options, script=script)

    def ran(self, job: int) -> int:
        """How often the script of a job has started."""
        path = self.lab.base / "jobs" / f"ran.{job}"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def interactive(self, command: str, *nodes: str) -> int:
        """Run srun or salloc on nodes to its end, and find the job's number."""
        name = f"{command}-{nodes[0]}"
        argv = [command, "-J", name, "-w", ",".join(nodes), f"-N{len(nodes)}", "--gres=gpu:1", "hostname"]
        self.lab.run(argv, check=False, timeout=60)
        listed = self.lab.run(["squeue", "-h", "-t", "all", "-n", name, "-O", "JobID:20"]).stdout.split()
        if len(listed) != 1:
            raise LabError(f"{command} left {len(listed)} jobs, expected 1")
        return int(listed[0])


def auth(base: Path, cred_expire: int) -> str:
    """The line of slurm.conf that says how long a refused job waits; it bounds what a Prolog may take, too."""
    return f"AuthInfo=socket={base}/run/munge.sock,cred_expire={cred_expire}\n"
