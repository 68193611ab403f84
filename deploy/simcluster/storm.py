"""A storm is every node of a cluster failing at once: Slurm and the central service are real, the agents are not.

One driver speaks for all agents in their wire format, each with a token of its own, so that a thousand nodes fit one
machine: a real slurmd each (about 1.2 MB), a real slurmctld, whose own statistics say what the storm cost it.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import count

from checks.wire import Batch, Decision, Finding, JobAttempt, PermitRequest, Report
from daemon.central import Central, CentralError
from deploy.simcluster.cluster import CLUSTER, Options, SimCluster, new_base

BOOT = "storm"
DRIVERS = 16  # threads of the driver, each with a connection of its own
# What slurmd and slurmctld say to each other, and our own question for the statistics.
NOT_OURS = re.compile(r"STATS_INFO|PING|REGISTRATION|NODE_HEALTH|ACCT_GATHER|EPILOG|COMPLETE|CONFIG_REQUEST")
_ROW = re.compile(r"^\t?\s*([A-Z][A-Z0-9_]+)\s+\(\s*\d+\)\s+count:(\d+)", re.MULTILINE)
_PART = re.compile(r"message type.*?\n(.*?)(?:\n\n|\nRemote Procedure Call statistics by user|\Z)", re.DOTALL)

Fault = Callable[[str, datetime], Finding]


@dataclass(frozen=True, slots=True)
class Cost:
    """What slurmctld was asked during a while, by message type, and the most of it within one second."""

    seconds: float
    calls: Counter[str] = field(default_factory=Counter)
    busiest: float = 0.0

    @property
    def per_second(self) -> float:
        """All calls over all seconds."""
        return sum(self.calls.values()) / self.seconds if self.seconds else 0.0


class Storm:
    """A cluster that is up; `storm()` makes one and ends it."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.names: Sequence[str] = cluster.lab.names
        self._sequence = count(1)

    # -- what agents say

    def report(self, finding: Fault) -> None:
        """Every agent reports one finding of now, all of them as fast as the service takes them."""
        now = datetime.now(timezone.utc)
        self._all(lambda client, name: client.ingest(self._batch(name, finding(name, now), now)))

    def ask(self, finding: Fault, wait: float = 3.0) -> int:
        """Every node's prolog asks for a permit, at the same time; how many were granted."""
        now = datetime.now(timezone.utc)
        numbers = {name: 100_000 + at for at, name in enumerate(self.names)}

        def one(client: Central, name: str) -> bool:
            found = finding(name, now)
            job = JobAttempt(job_id=numbers[name], restart_count=0, nodes=1)
            decision = Decision(verdict="faulty", wanted="refuse", codes=(found.code,), reason=found.message)
            asked = PermitRequest(
                cluster=CLUSTER, node=name, incarnation=BOOT, job=job, decision=decision, findings=(found,), wait=wait
            )
            try:
                return client.permit(asked).granted
            except CentralError:  # not in time: an agent admits the job
                return False

        return sum(self._all(one))

    def _batch(self, name: str, finding: Finding, now: datetime) -> Batch:
        report = Report(
            cluster=CLUSTER, node=name, incarnation=BOOT, sequence=next(self._sequence), occasion="interval",
            started_at=now, seconds=0.01, findings=(finding,), boot_id=BOOT,
        )  # fmt: skip
        return Batch(cluster=CLUSTER, node=name, incarnation=BOOT, reports=(report,))

    def _all(self, do: Callable[[Central, str], object]) -> list[bool]:
        def some(names: Iterable[str]) -> list[bool]:
            done = []
            for name in names:
                token = (self.cluster.base / "agents" / name / "token").read_text().strip()
                client = Central(self.cluster.url, token, timeout=120.0)
                try:
                    done.append(bool(do(client, name)))
                finally:
                    client.close()
            return done

        with ThreadPoolExecutor(DRIVERS) as threads:
            parts = [self.names[at::DRIVERS] for at in range(DRIVERS)]
            return [answer for answers in threads.map(some, parts) for answer in answers]

    def break_out(self, finding: Fault, seconds: float) -> tuple[Cost, int]:
        """Every node reports a fault, its prolog asks for a permit, and it reports again; the cost and the permits."""
        granted: list[int] = []

        def agents() -> None:
            self.report(finding)
            granted.append(self.ask(finding))
            self.report(finding)

        driver = threading.Thread(target=agents)
        driver.start()
        cost = self.watch(seconds)
        driver.join()
        return cost, granted[0]

    # -- what came of it

    def watch(self, seconds: float) -> Cost:
        """Look at slurmctld's statistics every second for a while."""
        begun = last = time.monotonic()
        first = before = self.calls()
        busiest = 0.0
        while (left := begun + seconds - time.monotonic()) > 0:
            time.sleep(min(1.0, left))
            seen, now = self.calls(), time.monotonic()
            busiest = max(busiest, sum((seen - before).values()) / (now - last))
            before, last = seen, now
        return Cost(last - begun, before - first, busiest)

    def calls(self) -> Counter[str]:
        """What slurmctld has been asked since it started, by message type, without its own daemons' talk."""
        return calls_of(self.cluster.lab.run(["sdiag"]).stdout)

    def drained(self) -> list[str]:
        """The nodes that are out of service."""
        return [name for name, state in self.cluster.lab.states().items() if state.startswith(("drain", "drng"))]

    def incidents(self) -> Counter[str]:
        """Open problems that the controller speaks of, by code; what single checks found is not among them."""
        found: Counter[str] = Counter()
        cursor: str | None = None
        while True:
            listed = self.cluster.get("incidents", open=True, limit=500, cursor=cursor)
            assert isinstance(listed, dict)
            found.update(item["code"] for item in listed["items"] if item["kind"] in ("controller", "correlated"))
            if (cursor := listed["next"]) is None:
                return found


def calls_of(text: str) -> Counter[str]:
    """Read the message types and their counts from ``sdiag``."""
    part = _PART.search(text)
    rows = _ROW.findall(part.group(1)) if part else []
    return Counter({kind: int(number) for kind, number in rows if not NOT_OURS.search(kind)})


def alike(name: str, now: datetime) -> Finding:
    """The same fault on every node."""
    return fault("gpu_lost", now)


def fault(code: str, now: datetime) -> Finding:
    """A failing finding that blames the node."""
    return Finding(
        check="gpu_health", target="GPU 3", status="fail", code=code, blame="node", message="fell off the bus",
        observed_at=now, since=now,
    )  # fmt: skip


def mixed(kinds: int) -> Fault:
    """As many different faults, spread evenly, so that no one of them is shown by too many nodes."""

    def made(name: str, now: datetime) -> Finding:
        return fault(f"storm_fault_{int(re.sub(r'[^0-9]', '', name)) % kinds}", now)

    return made


def well(name: str, now: datetime) -> Finding:
    """The same check, content."""
    return Finding(check="gpu_health", target="node", status="ok", code="ok", observed_at=now)


@contextmanager
def storm(nodes: int, *, server: str = "", poll: float = 10.0, told: Callable[[str], None] = print) -> Iterator[Storm]:
    """A Slurm cluster of so many real nodes and a central service, gone without a trace afterwards."""
    cluster = SimCluster(
        new_base(),
        Options(nodes=nodes, gpus=0, poll=poll, server=server, slurm_conf="HealthCheckInterval=0\nSlurmdTimeout=300\n"),
    )
    try:
        told(f"starting slurmctld and {nodes} slurmd")
        cluster.base.mkdir(mode=0o755, parents=True, exist_ok=True)
        (cluster.base / "policy.d").mkdir()
        cluster.lab.start()
        cluster.lab.wait_idle(60.0 + nodes)
        told("starting the central service")
        cluster.start_server()
        made = Storm(cluster)
        made.report(well)
        yield made
    finally:
        cluster.stop()
        cluster.remove()
