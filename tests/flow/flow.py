"""What the tests of this folder do with a simulated cluster and what they look at."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest

from api.ports import DrainView
from api.routes.shapes import NodeDetail, Page
from api.store.views import AuditView, IncidentView, ReportView
from checks.wire import Finding
from daemon.agent.status import Status
from daemon.central import CentralError
from daemon.cli.local import get
from daemon.cli.output import Refused, Unreachable
from deploy.simcluster import lab_ground, processes
from deploy.simcluster.cluster import Options, SimCluster, new_base
from deploy.simcluster.slurm_lab import SlurmLab

OURS = "nodevet: "
# The checks that see a broken GPU, each by itself.
WATCHING = frozenset({"gpu_health", "gpu_remap", "kernel_xid"})
# Many faults follow each other here within minutes; what the guard then does is tried in its own tests. And the tests
# resume nodes by hand between each other, which must not count as a person's word here.
WIDE_GUARD = "[guard]\ndrained_least = 99\nhourly_least = 99\nalike_least = 99\nfloor_share = 0.0\n"
NO_BELIEF = "belief = 0.0\n"


def auth(base: Path, cred_expire: int) -> str:
    """The slurm.conf line that says how long a refused job waits, and with it how long a Prolog may take."""
    return f"AuthInfo=socket={base}/run/munge.sock,cred_expire={cred_expire}\n"


@contextmanager
def running(options: Options, *, cred_expire: int = 8, patient: bool = False) -> Iterator[Flow]:
    """A cluster that is up for the tests of one file and gone without a trace after them."""
    if reason := lab_ground.cannot_run():
        pytest.skip(reason)
    base = new_base()
    conf = auth(base, cred_expire) + options.slurm_conf
    server = ("" if patient else NO_BELIEF) + options.server
    cluster = SimCluster(base, replace(options, slurm_conf=conf, server=server))
    try:
        cluster.start()
        flow = Flow(cluster, patient)
        flow.limits_known()
        yield flow
    finally:
        cluster.stop()
    cluster.remove()


@dataclass(slots=True)
class Flow:
    """One cluster with short words for what every test does.

    ``patient``: what we drained is left to be verified and resumed by us, where a hand on it would count as a person's.
    """

    cluster: SimCluster
    patient: bool = False

    @property
    def lab(self) -> SlurmLab:
        """The cluster's Slurm."""
        return self.cluster.lab

    @property
    def names(self) -> list[str]:
        """The cluster's nodes."""
        return self.lab.names

    # -- before and after

    def calm(self) -> None:
        """Bring everything back: no job, no fault, every node idle, healthy and on nobody's list."""
        self.lab.run(["scancel", "--user=root"], check=False)
        for host in self.cluster.hosts.values():
            host.heal()
        self.wait(lambda: not self.jobs_left(), 60, "jobs do not end")
        self.wait(self._healthy, 40, lambda: f"nodes do not get healthy: {self.ill()}")
        self.wait(self._all_idle, 40, lambda: f"nodes do not get idle: {self.out_of_service()}")
        self.wait(lambda: not self.drains(), 30, lambda: f"drains stay on record: {self.drains()}")

    def jobs_left(self) -> str:
        """What squeue still lists."""
        return self.lab.run(["squeue", "-h"], check=False).stdout

    def _healthy(self) -> bool:
        """Whether agents and central service see no fault any more; an agent that still sees one looks again.

        What the kernel once logged about a GPU that is well again stays a warning until the next boot.
        """
        ill = [n for n, found in self.ill().items() if found]
        for name in ill:
            self.look_again(name)
        return not ill and not {"faulty", "unknown"} & set(self.cluster.verdicts().values())

    def ill(self) -> dict[str, list[str]]:
        """What every agent has to say against its node; warnings, and what it says of itself, are left out."""
        found = {n: [f for f in self.status(n).findings if f.check != "agent"] for n in self.names}
        return {n: [f"{f.code} {f.target}" for f in fs if f.status in ("fail", "unknown")] for n, fs in found.items()}

    def look_again(self, node: str) -> None:
        """Let an agent ask every check anew, and wait until it has."""
        self.cluster.post(f"nodes/sim/{node}/check", {"kind": "check"})
        asked = time.monotonic()
        with suppress(lab_ground.LabError):
            self.wait(lambda: self.age(node, "gpu_health") < time.monotonic() - asked, 5, "")

    def _all_idle(self) -> bool:
        states = self.lab.states()
        drains = {d.node: d for d in self.drains() if d.owner == "ours-automatic"} if self.patient else {}
        for name, state in states.items():
            ours = name in drains
            if ours and "nodevet resume" in drains[name].exit:
                self.cluster.post("drains/resume", {"nodes": name, "verify": True})
            if not ours and state.rstrip("*") in {"drain", "drained", "down"}:
                self.lab.run(["scontrol", "update", f"nodename={name}", "state=resume"], check=False)
        return len(states) == len(self.names) and set(states.values()) == {"idle"}

    def limits_known(self) -> None:
        """Wait until every agent knows the running Slurm's limits and holds a poll open."""
        for name in self.names:
            self.wait(lambda n=name: self.status(n).uplink.limits is not None, 30, f"{name} has no limits")  # type: ignore[misc]

    # -- waiting

    def wait(self, condition: Callable[[], bool], timeout: float, otherwise: str | Callable[[], str]) -> float:
        """Wait until it holds; seconds. An agent or a service that is not there yet may come."""

        def holds() -> bool:
            with suppress(Unreachable, Refused, CentralError):
                return condition()
            return False

        told = otherwise if callable(otherwise) else lambda: otherwise
        return self.cluster.wait_for(holds, timeout, told)

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

    # -- doing

    def breaks(self, node: str, fault: str, **target: int | str) -> None:
        """Break a node between two looks at it, so that a prolog is the first to see it."""
        self.between_looks(node)
        self.cluster.hosts[node].inject(fault, **target)

    def between_looks(self, node: str) -> None:
        """Wait for a moment when the node's GPUs were looked at a while ago and will not be for a while."""

        def between() -> bool:
            rows = [c for c in self.status(node).checks if c.name in WATCHING]
            return all(c.age is not None and 1.2 < c.age < c.interval - 8.0 for c in rows)

        self.wait(between, 90, f"no moment between two looks at {node}")

    def says(self, node: str, kind: str, env: Mapping[str, str] | bytes) -> tuple[int, str]:
        """Ask an agent as the hook does; the exit status and the line it gives."""
        body = env if isinstance(env, bytes) else b"".join(f"{k}={v}\0".encode() for k, v in env.items())
        head = f"POST /v1/{kind} HTTP/1.1\r\nHost: agent\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(15)
            sock.connect(self.socket(node))
            sock.sendall(head + body)
            answer = b""
            while part := sock.recv(65536):
                answer += part
        top, _, line = answer.partition(b"\r\n\r\n")
        fields = dict(row.lower().split(b": ", 1) for row in top.split(b"\r\n")[1:])
        return int(fields[b"nodevet-exit"]), line.decode().strip()

    @contextmanager
    def stopped(self, pid: int) -> Iterator[None]:
        """A process that does not run for a while, as under a debugger or on a host that swaps."""
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)
