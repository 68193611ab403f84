"""kill -9 of the central service at every step of a drain, and of slurmctld before it has saved: one end for all."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.simcluster.cluster import SERVER_USER, Options
from tests.flow.flow import OURS, WIDE_GUARD, Flow, running

pytestmark = [pytest.mark.cluster, pytest.mark.faults, pytest.mark.timeout(900)]

# One node each; the first that comes to its step takes the service down, and the next service finds the others.
PLAN = {
    "n1": "after intent",
    "n2": "before drain",
    "n3": "after drain",
    "n4": "after record of the drain",
    "n5": "after order verify",
    "n6": "before resume",
    "n7": "after resume",
    "n8": "after record resumed",
}
SETTINGS = "verify_timeout = 20.0\nprobation = 0.0\n" + WIDE_GUARD


@pytest.fixture(scope="module")
def flow() -> Iterator[Flow]:
    with running(Options(nodes=len(PLAN), interval=3.0, server=SETTINGS), patient=True) as flow:
        yield flow


class Mortal:
    """The service with a plan of its deaths, started again after each by a thread."""

    def __init__(self, flow: Flow, plan: dict[str, str]) -> None:
        self._flow, self.deaths = flow, 0
        cluster = flow.cluster
        user = pwd.getpwnam(SERVER_USER)
        self._plan, program = cluster.base / "server/plan.json", cluster.base / "server/crashing_server.py"
        self._plan.write_text(json.dumps(plan))
        shutil.copy(Path(__file__).with_name("crashing_server.py"), program)
        for path in (self._plan, program):
            os.chown(path, user.pw_uid, user.pw_gid)
        self._argv: list[str | Path] = [sys.executable, "-I", program, self._plan, cluster.base / "server/server.toml"]
        self._over = threading.Event()

    @property
    def left(self) -> dict[str, str]:
        """The steps that have not come yet."""
        return dict(json.loads(self._plan.read_text() or "{}"))

    @contextmanager
    def watched(self) -> Iterator[None]:
        self._flow.cluster.kill_server()
        watching = threading.Thread(target=self._watch)
        watching.start()
        try:
            yield
        finally:
            self._over.set()
            watching.join(60)

    def _watch(self) -> None:
        cluster = self._flow.cluster
        while not self._over.is_set():
            cluster._spawn("server", self._argv, user=SERVER_USER)
            service = cluster._own["server"]
            while service.poll() is None:
                if self._over.wait(0.1):
                    return
            self.deaths += 1


def works(flow: Flow) -> bool:
    """Whether the service looks at Slurm."""
    flow.steps(1)
    return True


def audited(flow: Flow, node: str) -> Counter[str]:
    """What was done to a node, by word."""
    words = ("drain", "resume", "drain resumed outside", "drain taken over", "drain reopened", "drain written again")
    return Counter({word: len(found) for word in words if (found := flow.audit(node, word))})


def test_the_service_is_killed_at_every_step_of_a_drain_and_of_the_way_back(flow: Flow) -> None:
    mortal = Mortal(flow, PLAN)
    with mortal.watched():
        for name in PLAN:
            flow.cluster.hosts[name].inject("gpu_reset_required", gpu=1)
        flow.wait(lambda: set(flow.out_of_service()) == set(PLAN), 300, lambda: f"not drained: {mortal.left}")
        reasons = flow.out_of_service()
        assert all(OURS in reason for reason in reasons.values()), reasons
        for name in PLAN:
            flow.cluster.hosts[name].heal()
        flow.wait(lambda: set(flow.lab.states().values()) == {"idle"}, 300, lambda: f"{mortal.left} {flow.drains()}")
        flow.wait(lambda: not mortal.left, 20, lambda: f"these steps did not come: {mortal.left}")
        flow.wait(lambda: not flow.drains(), 60, lambda: f"drains stay on record: {flow.drains()}")
        flow.steps(2)
        assert mortal.deaths == len(PLAN)
        assert {n: audited(flow, n) for n in PLAN} == {n: Counter({"drain": 1, "resume": 1}) for n in PLAN}
        assert flow.out_of_service() == {}


def test_a_person_who_drained_is_not_overruled_by_a_service_that_was_killed(flow: Flow) -> None:
    mortal = Mortal(flow, {"n2": "after drain"})
    with mortal.watched():
        flow.wait(lambda: works(flow), 60, "the service is not up")
        with pytest.raises(Exception, match=r".+"):
            flow.cluster.post("drains", {"nodes": "n2", "reason": "swap the fan"})
        assert flow.drained("n2").startswith("nodevet/person: swap the fan [")
        flow.wait(lambda: [d.phase for d in flow.drains()] == ["drained"], 120, lambda: f"{flow.drains()}")
        flow.rounds("n2", "gpu_health")
        flow.steps(3)
        assert "DRAIN" in flow.lab.node_state("n2") and audited(flow, "n2")["drain"] == 2
        flow.cluster.post("drains/resume", {"nodes": "n2", "verify": True})
        flow.wait(lambda: flow.lab.states()["n2"] == "idle", 120, lambda: f"{flow.drains()}")


def test_a_resume_that_slurmctld_forgot_is_done_again(flow: Flow) -> None:
    """What a crash before the next save leaves behind: the state of the nodes of a few seconds ago."""
    saved = flow.lab.base / "state/node_state"
    with Mortal(flow, {}).watched():
        flow.cluster.hosts["n3"].inject("gpu_reset_required", gpu=1)
        reason = flow.drained("n3")
        flow.lab.saved()
        before = saved.read_bytes()
        flow.cluster.hosts["n3"].heal()
        flow.wait(lambda: flow.lab.states()["n3"] == "idle", 120, lambda: f"{flow.drains()}")
        flow.wait(lambda: not flow.drains(), 60, lambda: f"{flow.drains()}")
        flow.lab.kill_slurmctld()
        saved.write_bytes(before)
        flow.lab.start_slurmctld()
        flow.wait(lambda: bool(flow.audit("n3", "drain reopened")), 120, lambda: f"{flow.lab.node_reason('n3')}")
        assert reason.partition(" [")[0] in flow.audit("n3", "drain reopened")[0].detail
        flow.wait(lambda: flow.lab.states()["n3"] == "idle", 120, lambda: f"{flow.drains()}")
        flow.wait(lambda: not flow.drains(), 60, lambda: f"{flow.drains()}")
        assert flow.incidents("drain_unowned") == [] and audited(flow, "n3")["drain"] == 2
