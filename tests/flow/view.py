"""What the tests of this folder look at and wait for on a simulated cluster."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from api.ports import DrainView
from api.routes.shapes import NodeDetail, Page
from api.store.views import AuditView, IncidentView, ReportView
from checks.wire import Finding
from daemon.agent.status import Status
from daemon.central import CentralError
from daemon.cli.local import get
from daemon.cli.output import Refused, Unreachable
from deploy.simcluster import processes, waiting
from deploy.simcluster.cluster import SimCluster
from deploy.simcluster.slurm_lab import SlurmLab

NOT_YET = (waiting.CommandFailed, Unreachable, Refused, CentralError)


@dataclass(slots=True)
class View:
    """One cluster as Slurm, the central service and the agents show it."""

    cluster: SimCluster

    @property
    def lab(self) -> SlurmLab:
        """The cluster's Slurm."""
        return self.cluster.lab

    @property
    def names(self) -> list[str]:
        """The cluster's nodes."""
        return self.lab.names

    # -- waiting

    def wait(self, condition: Callable[[], bool], timeout: float, otherwise: str | Callable[[], str]) -> float:
        """Wait until it holds; seconds. An agent, a service or a slurmctld that is not there yet may come."""
        told = otherwise if callable(otherwise) else lambda: otherwise
        return waiting.wait_for(condition, timeout, told, NOT_YET)

    def drained(self, node: str, timeout: float = 30.0) -> str:
        """Wait until a node is drained; its reason."""
        self.wait(lambda: "DRAIN" in self.lab.node_state(node), timeout, f"{node} was not drained")
        return self.lab.node_reason(node)

    def rounds(self, node: str, check: str, count: int = 2, timeout: float = 30.0) -> None:
        """Wait until a check was answered ``count`` times anew on a node."""
        for _ in range(count):
            before = time.monotonic()
            self.wait(lambda b=before: self.age(node, check) < time.monotonic() - b, timeout, f"no new {check}")  # type: ignore[misc]

    def steps(self, count: int = 2) -> None:
        """Wait until the central service has read Slurm ``count`` times more: what it wanted to do is done by then."""
        for _ in range(count):
            before = time.monotonic()

            def again(before: float = before) -> bool:
                coverage = self.cluster.get("coverage")
                assert isinstance(coverage, dict)
                age = coverage["counters"]["slurm_age_seconds"]
                return 0 <= float(age) < time.monotonic() - before

            self.wait(again, 30, "the central service does not read Slurm")

    # -- looking

    def age(self, node: str, check: str) -> float:
        """The age of a check's answer, seconds."""
        ages = [c.age for c in self.status(node).checks if c.name == check]
        assert ages, f"{node} has no check {check}"
        return float("inf") if ages[0] is None else ages[0]

    def socket(self, node: str) -> str:
        """The path of an agent's socket."""
        return str(self.cluster.base / "agents" / node / "agent.sock")

    def status(self, node: str) -> Status:
        """What an agent says of itself."""
        return msgspec.json.decode(get(self.socket(node), "/v1/status"), type=Status)

    def finding(self, node: str, code: str) -> Finding | None:
        """The agent's present finding with this code."""
        with suppress(Unreachable, Refused):
            return next((f for f in self.status(node).findings if f.code == code), None)
        return None

    def reports(self, job: int, occasion: str = "prolog") -> list[ReportView]:
        """What the agents reported of a job."""
        client = self.cluster.central()
        try:
            items = client.get(f"jobs/sim/{job}", Page[ReportView]).items
        except CentralError:
            return []
        finally:
            client.close()
        return [r for r in items if r.occasion == occasion]

    def answers(self, job: int, count: int, restart: int = 0) -> dict[str, ReportView]:
        """Each node's report of one attempt of a job, once there are ``count``."""

        def found() -> dict[str, ReportView]:
            return {r.node: r for r in self.reports(job) if r.job is not None and r.job.restart_count == restart}

        self.wait(lambda: len(found()) >= count, 30, lambda: f"job {job} has {len(found())} of {count} prolog reports")
        return found()

    def allowed(self, job: int, count: int, restart: int = 0) -> dict[str, str | None]:
        """What each node's prolog did with one attempt of a job."""
        reports = self.answers(job, count, restart)
        return {n: r.decision.allowed if r.decision else None for n, r in sorted(reports.items())}

    def node(self, name: str) -> NodeDetail:
        """A node as the central service has it."""
        client = self.cluster.central()
        try:
            return client.get(f"nodes/sim/{name}", NodeDetail)
        finally:
            client.close()

    def drains(self) -> list[DrainView]:
        """The drains that the central service knows."""
        client = self.cluster.central()
        try:
            return client.get("drains", Page[DrainView]).items
        finally:
            client.close()

    def incidents(self, code: str) -> list[IncidentView]:
        """Problems with this code, closed ones as well."""
        client = self.cluster.central()
        try:
            return [i for i in client.get("incidents", Page[IncidentView], limit=100).items if i.code == code]
        finally:
            client.close()

    def audit(self, node: str, action: str) -> list[AuditView]:
        """What was done to a node, newest first."""
        client = self.cluster.central()
        try:
            rows = client.get("audit", Page[AuditView], limit=500).items
        finally:
            client.close()
        return [a for a in rows if a.subject == node and a.action == action]

    def out_of_service(self) -> dict[str, str]:
        """Every node whose state says that no job starts there, with its reason."""
        seen = {n: (self.lab.node_state(n), self.lab.node_reason(n)) for n in self.names}
        return {n: f"{state} {reason}" for n, (state, reason) in seen.items() if "DRAIN" in state or "DOWN" in state}

    def why(self, node: str) -> list[str]:
        """What the central service and the agent did lately about a node, for a failed test's message."""
        client = self.cluster.central()
        try:
            rows = client.get("audit", Page[AuditView], limit=50).items
        finally:
            client.close()
        log = (self.cluster.base / f"log/agent-{node}.log").read_text().splitlines()
        return [f"{a.action}: {a.detail}" for a in rows if a.subject == node][:6] + log[-6:]

    def restarts(self, job: int) -> int:
        """How often Slurm restarted a job."""
        return int(self.lab.run(["squeue", "-h", "-t", "all", "-j", str(job), "-O", "RestartCnt"]).stdout)

    @property
    def server_pid(self) -> int:
        """The process of the central service."""
        home = str(self.cluster.base / "server/server.toml").encode()
        for pid in processes.of_lab(self.cluster.base):
            with suppress(OSError):
                if home in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                    return pid
        raise AssertionError("no central service runs")
