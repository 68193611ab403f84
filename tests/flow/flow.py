"""What the tests of this folder do with a simulated cluster and what they look at."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from deploy.simcluster import lab_ground
from deploy.simcluster.cluster import Options, SimCluster, new_base
from slurm.reason import parse
from tests.flow.view import View

OURS = "nodevet: "
# The checks that see a broken GPU, each by itself.
WATCHING = frozenset({"gpu_health", "gpu_remap", "kernel_xid"})
# Many faults follow each other here within minutes; what the guard then does is tried in its own tests. And the tests
# resume nodes by hand between each other, which must not count as a person's word here.
WIDE_GUARD = "[guard]\ndrained_least = 99\nhourly_least = 99\nalike_least = 99\nfloor_share = 0.0\ngroup_least = 99\n"
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
    server = ("" if patient else NO_BELIEF) + options.server.replace("{base}", str(base))
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
class Flow(View):
    """One cluster with short words for what every test does.

    ``patient``: what we drained is left to be verified and resumed by us, where a hand on it would count as a person's.
    """

    patient: bool = False

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
        asked = {d.node for d in self.drains() if "nodevet resume" in d.exit}
        for name, state in states.items():
            ours = self.patient and parse(self.lab.node_reason(name).rpartition(" [")[0]) is not None
            if ours and name in asked:
                self.cluster.post("drains/resume", {"nodes": name, "verify": True})
            if not ours and state.rstrip("*") in {"drain", "drained", "down"}:
                self.lab.run(["scontrol", "update", f"nodename={name}", "state=resume"], check=False)
        return len(states) == len(self.names) and set(states.values()) == {"idle"}

    def limits_known(self) -> None:
        """Wait until every agent knows the running Slurm's limits and holds a poll open."""
        for name in self.names:
            self.wait(lambda n=name: self.status(n).uplink.limits is not None, 30, f"{name} has no limits")  # type: ignore[misc]

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
