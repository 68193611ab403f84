"""The demo is the main job told step by step on real parts; a step that comes out otherwise fails the whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from daemon.central import CentralError
from deploy.simcluster.cluster import SimCluster
from deploy.simcluster.lab_ground import LabError
from deploy.simcluster.rounds import between_rounds

ADMIN_REASON = "ADMIN: fan 3 is noisy, do not touch (alice)"
OURS = "nodevet: "
# The checks that could see the second fault by themselves.
WATCHING = ("gpu_health", "kernel_xid")
Tell = Callable[[str], None]


class Step(msgspec.Struct, frozen=True):
    """One step: whether it came out right, how long it took, what was seen."""

    name: str
    passed: bool
    seconds: float
    seen: str


class Result(msgspec.Struct, frozen=True):
    """What ``nodevet sim demo --once --json`` prints."""

    passed: bool
    steps: list[Step]
    nodes: dict[str, str]
    jobs: dict[str, str]
    simulated: bool = True


class Otherwise(Exception):
    """A step came out otherwise than it must."""


@dataclass(slots=True)
class Demo:
    """Plays the steps on a cluster of four nodes or more and remembers what was seen."""

    cluster: SimCluster
    tell: Tell
    steps: list[Step] = field(default_factory=list)
    jobs: dict[str, str] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    def play(self) -> Result:
        """Run every step; after a failed one the rest is not tried."""
        for name, step in self._script():
            if not self._one(name, step):
                break
        passed = len(self.steps) == len(self._script()) and all(s.passed for s in self.steps)
        return Result(passed, self.steps, self._states(), dict(self.jobs))

    def _script(self) -> list[tuple[str, Callable[[], str]]]:
        return [
            ("cluster up, every node healthy", self.up),
            ("a job is vetted by the Prolog on both its nodes and runs", self.vetted),
            ("an administrator drains n4 by hand", self.administrator),
            ("a GPU falls off the bus on idle n1: drained before a job reaches it", self.idle_fault),
            ("the next job runs elsewhere", self.elsewhere),
            ("a GPU of n2 fails between findings: the job is refused, restarts on a good node", self.refused),
            ("the administrator's node was left alone", self.left_alone),
            ("faults healed: nodes verified and resumed", self.healed),
            ("central service killed: jobs still start", self.without_server),
            ("central service back: it learns what it missed", self.caught_up),
            ("the administrator's node was left alone throughout", self.left_alone),
        ]

    def _one(self, name: str, step: Callable[[], str]) -> bool:
        self.tell(f"[{time.monotonic() - self.started:6.1f} s] {name} …")
        begun = time.monotonic()
        try:
            seen, passed = step(), True
        except (Otherwise, LabError, CentralError) as error:
            seen, passed = str(error), False
        seconds = time.monotonic() - begun
        self.steps.append(Step(name, passed, round(seconds, 2), seen))
        self.tell(f"           {'ok' if passed else 'FAILED'} after {seconds:.1f} s: {seen}")
        return passed

    def _states(self) -> dict[str, str]:
        try:
            return self.cluster.lab.states()
        except (LabError, OSError):
            return {}

    # -- the steps

    def up(self) -> str:
        """Bring the cluster up."""
        self.cluster.start(lambda text: self.tell(f"           {text}"))
        names = self.cluster.lab.names
        return f"{len(names)} nodes with {self.cluster.options.gpus} simulated H100 each, server {self.cluster.url}"

    def vetted(self) -> str:
        """A two-node job."""
        job = self._submit("vetted", "-N2", "--gres=gpu:2")
        self.cluster.lab.wait_job(job, "COMPLETED", timeout=30)
        answers = self._answers(job, "prolog", 2)
        _insist(set(answers.values()) == {"admit"}, f"answers were {answers}")
        return f"job {job}: " + ", ".join(f"{node} {answer}" for node, answer in sorted(answers.items()))

    def administrator(self) -> str:
        """Somebody else's hand."""
        self.cluster.lab.run(["scontrol", "update", "nodename=n4", "state=drain", f"reason={ADMIN_REASON}"])
        return f"n4: {self.cluster.lab.node_reason('n4')}"

    def idle_fault(self) -> str:
        """Found between jobs."""
        self.cluster.hosts["n1"].inject("gpu_lost", gpu=3)
        took = self._wait(lambda: "DRAIN" in self.cluster.lab.node_state("n1"), 30, "n1 was not drained")
        return f"drained after {took:.1f} s: {self._our_reason('n1')}"

    def elsewhere(self) -> str:
        """A job that needs every good node."""
        job = self._submit("elsewhere", "-N2", "--gres=gpu:8")
        self.cluster.lab.wait_job(job, "COMPLETED", timeout=30)
        nodes = sorted(self._answers(job, "prolog", 2))
        _insist(nodes == ["n2", "n3"], f"job {job} ran on {nodes}")
        return f"job {job} ran on {', '.join(nodes)}"

    def refused(self) -> str:
        """Found by the job's own Prolog."""
        between_rounds(self.cluster, "n2", WATCHING)
        self.cluster.hosts["n2"].inject("gpu_reset_required", gpu=2)
        job = self._submit("refused", "-N1", "--gres=gpu:4")
        self._wait(lambda: "DRAIN" in self.cluster.lab.node_state("n2"), 20, "n2 was not drained")
        self.cluster.lab.wait_job(job, "COMPLETED", timeout=60)
        answers = self._answers(job, "prolog", 2)
        _insist(answers.get("n2") == "refuse", f"n2 answered {answers.get('n2')}, job {job}: {answers}")
        _insist(answers.get("n3") == "admit", f"job {job} did not restart on n3: {answers}")
        restarts = self._restarts(job)
        _insist(restarts == 1, f"job {job} was restarted {restarts} times")
        return f"n2 refused job {job}, it restarted on n3; n2: {self._our_reason('n2')}"

    def left_alone(self) -> str:
        """Neither reason nor state of n4 is ours to change."""
        state, reason = self.cluster.lab.node_state("n4"), self.cluster.lab.node_reason("n4")
        _insist("DRAIN" in state and reason.startswith(ADMIN_REASON), f"n4 is {state}: {reason!r}")
        return f"n4 {state}: {reason}"

    def healed(self) -> str:
        """Mend, verify, resume; what only a person may give back is asked for by a person."""
        for name in ("n1", "n2"):
            self.cluster.hosts[name].heal()
        asked = [d["node"] for d in self._items("drains") if "nodevet resume" in str(d["exit"])]
        if asked:
            nodes = ",".join(sorted(map(str, asked)))
            self.tell(f"           an operator asks: nodevet resume {nodes}")
            self.cluster.post("drains/resume", {"nodes": nodes, "verify": True})
        took = self._wait(
            lambda: all(self.cluster.lab.states()[n] == "idle" for n in ("n1", "n2")), 60, "nodes were not resumed"
        )
        trail = [f"{a['subject']}: {a['detail']}" for a in self._items("audit") if a["action"] == "resume"]
        return f"after {took:.1f} s: {'; '.join(sorted(trail))}"

    def without_server(self) -> str:
        """Our own trouble never keeps a job waiting."""
        self.cluster.kill_server()
        job = self._submit("without server", "-N2", "--gres=gpu:2")
        began = time.monotonic()
        self.cluster.lab.wait_job(job, "COMPLETED", timeout=40)
        return f"job {job} ran in {time.monotonic() - began:.1f} s with nobody at {self.cluster.url}"

    def caught_up(self) -> str:
        """Nothing acknowledged is lost, and nothing unacknowledged either."""
        job = int(self.jobs["without server"])
        self.cluster.start_server()
        took = self._wait(lambda: len(self._prologs(job)) == 2, 60, f"reports of job {job} did not arrive")
        return f"both reports of job {job} arrived {took:.1f} s after the start"

    # -- looking

    def _submit(self, what: str, *options: str) -> int:
        job = self.cluster.lab.sbatch("-J", what.replace(" ", "-"), *options, script="hostname")
        self.jobs[what] = str(job)
        return job

    def _items(self, path: str) -> list[dict[str, object]]:
        page = self.cluster.get(path)
        items = page.get("items", []) if isinstance(page, dict) else []
        return [i for i in items if isinstance(i, dict)]

    def _prologs(self, job: int) -> dict[str, str]:
        """Each node's answer to the job, the last attempt's where there were several."""
        try:
            rows = self._items(f"jobs/sim/{job}")
        except CentralError:
            return {}
        found = {}
        for row in rows:
            decision = row.get("decision")
            if row.get("occasion") == "prolog" and isinstance(decision, dict):
                found[str(row["node"])] = str(decision.get("allowed"))
        return found

    def _answers(self, job: int, occasion: str, count: int) -> dict[str, str]:
        self._wait(lambda: len(self._prologs(job)) >= count, 30, f"{occasion} reports of job {job} are missing")
        return self._prologs(job)

    def _restarts(self, job: int) -> int:
        return int(self.cluster.lab.run(["squeue", "-h", "-t", "all", "-j", str(job), "-O", "RestartCnt"]).stdout)

    def _our_reason(self, node: str) -> str:
        reason = self.cluster.lab.node_reason(node)
        _insist(reason.startswith(OURS), f"reason of {node} is {reason!r}, not ours")
        return reason

    def _wait(self, condition: Callable[[], bool], timeout: float, otherwise: str) -> float:
        return self.cluster.wait_for(condition, timeout, lambda: otherwise)


def _insist(condition: bool, otherwise: str) -> None:
    if not condition:
        raise Otherwise(otherwise)
