"""A drain belongs to whoever wrote its reason, and nobody's but ours is ever changed or ended by us."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deploy.simcluster.cluster import Options
from tests.flow.flow import OURS, WIDE_GUARD, Flow, running

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

HOOKS = {"Prolog": "prolog", "Epilog": "epilog", "HealthCheckProgram": "health"}
HOSTILE = """ADMIN: "fan" 'three' $(reboot) `id`; köln 東京 nodevet: gpu_lost"""


@pytest.fixture(scope="module")
def up() -> Iterator[Flow]:
    conf = "RebootProgram=/bin/true\nResumeTimeout=600\n"
    with running(Options(nodes=3, interval=2.0, slurm_conf=conf, server=WIDE_GUARD), patient=True) as flow:
        yield flow


@pytest.fixture
def flow(up: Flow) -> Flow:
    up.calm()
    return up


def written(flow: Flow, node: str) -> str:
    """The reason with who wrote it and when."""
    return flow.lab.node_reason(node)


def drain(flow: Flow, node: str, reason: str) -> str:
    """Drain as an administrator does."""
    flow.lab.run(["scontrol", "update", f"nodename={node}", "state=drain", f"reason={reason}"])
    return written(flow, node)


def settled(flow: Flow, node: str, check: str = "gpu_health") -> None:
    """Wait until the node was looked at twice more and the central service has had its say about it."""
    flow.rounds(node, check)
    flow.steps(3)


@pytest.mark.parametrize("reason", [HOSTILE, "Kill task failed", "batch job complete failure"])
def test_somebody_elses_drain_is_left_alone_while_faults_come_and_go(flow: Flow, reason: str) -> None:
    before = drain(flow, "n2", reason)
    flow.cluster.hosts["n2"].inject("gpu_lost", gpu=3)
    flow.wait(lambda: flow.node("n2").verdict == "faulty", 20, "the fault is not seen")
    settled(flow, "n2")
    assert written(flow, "n2") == before
    flow.cluster.hosts["n2"].heal()
    flow.wait(lambda: flow.node("n2").verdict != "faulty", 20, "the node does not get well")
    settled(flow, "n2")
    assert (written(flow, "n2"), "DRAIN" in flow.lab.node_state("n2")) == (before, True)
    owner = next(d.owner for d in flow.drains() if d.node == "n2")
    assert owner == ("other" if reason == HOSTILE else "slurm")


def test_a_node_under_a_maintenance_reservation_is_nobodys_to_drain(flow: Flow) -> None:
    argv = ["scontrol", "create", "reservation", "reservationname=maint", "starttime=now", "duration=60"]
    flow.lab.run([*argv, "user=root", "flags=maint,ignore_jobs", "nodes=n2"])
    try:
        flow.wait(lambda: "MAINT" in flow.lab.node_state("n2"), 20, "no maintenance")
        flow.cluster.hosts["n2"].inject("gpu_lost", gpu=3)
        flow.wait(lambda: flow.node("n2").verdict == "faulty", 20, "the fault is not seen")
        settled(flow, "n2")
        assert "DRAIN" not in flow.lab.node_state("n2") and written(flow, "n2") == ""
    finally:
        flow.lab.run(["scontrol", "delete", "reservationname=maint"])
    assert flow.drained("n2").startswith(f"{OURS}gpu_lost ")


def test_a_node_that_waits_for_its_reboot_is_left_alone(flow: Flow) -> None:
    job = flow.lab.sbatch("-w", "n2", "--gres=gpu:1", script="sleep 120")
    flow.lab.wait_job(job, "RUNNING")
    flow.lab.run(["scontrol", "reboot", "ASAP", "n2"])
    try:
        flow.wait(lambda: "REBOOT_REQUESTED" in flow.lab.node_state("n2"), 20, "no reboot is asked for")
        before = written(flow, "n2")
        flow.cluster.hosts["n2"].inject("gpu_lost", gpu=3)
        flow.wait(lambda: flow.node("n2").verdict == "faulty", 20, "the fault is not seen")
        settled(flow, "n2")
        assert written(flow, "n2") == before
        assert "REBOOT_REQUESTED" in flow.lab.node_state("n2")
    finally:
        flow.lab.run(["scontrol", "cancel_reboot", "n2"])


def test_a_faulty_node_resumed_by_hand_is_drained_again_for_the_same_cause(flow: Flow) -> None:
    # A node that nobody resumed by hand before, and a fault that only one check sees, always in the same words.
    flow.cluster.hosts["n3"].nvml.change({"gpu.3.recovery_action": 1})
    first = flow.drained("n3")
    flow.lab.run(["scontrol", "update", "nodename=n3", "state=resume"])
    flow.wait(lambda: OURS in written(flow, "n3") and written(flow, "n3") != first, 30, lambda: str(flow.why("n3")))
    again = written(flow, "n3")
    same = text(first).replace(token(first), token(again))
    code, _, detail = same.removeprefix(OURS).partition(" ")
    assert text(again) == f"{OURS}{code} drained again, 1 foreign resume: {detail}"
    assert len(flow.audit("n3", "drain resumed outside")) == 1


def test_a_node_of_ours_comes_back_by_itself_once_it_is_mended(flow: Flow) -> None:
    flow.cluster.hosts["n2"].inject("gpu_reset_required", gpu=3)
    assert flow.drained("n2").startswith(OURS)
    flow.cluster.hosts["n2"].heal()
    flow.wait(lambda: flow.lab.states()["n2"] == "idle", 60, lambda: f"n2 was not resumed: {flow.drains()}")
    assert written(flow, "n2") == ""
    assert "clean verifications" in flow.audit("n2", "resume")[0].detail


def test_a_reason_that_a_person_edits_meanwhile_is_theirs(flow: Flow) -> None:
    flow.cluster.hosts["n2"].inject("gpu_reset_required", gpu=3)
    ours = flow.drained("n2")
    flow.lab.run(["scontrol", "update", "nodename=n2", f"reason={text(ours)} - card ordered (bob)"])
    before = written(flow, "n2")
    flow.cluster.hosts["n2"].heal()
    flow.wait(lambda: flow.node("n2").verdict != "faulty", 20, "the node does not get well")
    settled(flow, "n2")
    assert (written(flow, "n2"), "DRAIN" in flow.lab.node_state("n2")) == (before, True)
    resumed, taken = flow.audit("n2", "resume"), flow.audit("n2", "drain taken over")
    assert taken and (not resumed or taken[0].id > resumed[0].id)


def test_a_reason_edited_while_we_verify_is_theirs_too(flow: Flow) -> None:
    flow.cluster.hosts["n2"].inject("gpu_reset_required", gpu=3)
    ours = flow.drained("n2")
    # The node's agent does not move while the verification is due, so the edit falls right into it.
    pid = flow.status("n2").pid
    flow.wait(lambda: phase(flow, "n2") in ("drained", "verifying"), 20, "no drain")
    flow.cluster.hosts["n2"].heal()
    flow.wait(lambda: phase(flow, "n2") in ("verifying", "gone"), 30, "no verification is asked for")
    with flow.stopped(pid):
        flow.lab.run(["scontrol", "update", "nodename=n2", "state=drain", "reason=HW: card swapped tomorrow (bob)"])
        before = written(flow, "n2")
        flow.steps(2)
    settled(flow, "n2")
    assert (written(flow, "n2"), "DRAIN" in flow.lab.node_state("n2")) == (before, True)
    assert ours != before


def test_somebody_elses_prolog_that_fails_is_not_explained_as_ours(flow: Flow) -> None:
    folder = flow.lab.base / "prolog.d"
    folder.mkdir(exist_ok=True)
    theirs = folder / "90-site"
    # Slurm runs them in reverse alphabetical order: this one comes before ours.
    (folder / "10-nodevet").write_text(f"#!/bin/sh\nexec {flow.cluster.base}/hooks/nodevet-prolog\n")
    theirs.write_text("#!/bin/sh\nexit 1\n")
    for path in folder.iterdir():
        path.chmod(0o755)
    hooks = {k: flow.cluster.base / "hooks" / f"nodevet-{n}" for k, n in HOOKS.items()}
    flow.lab.configure(hooks={**hooks, "Prolog": folder / "*"}, reconfigure=True)
    try:
        job = flow.lab.sbatch("-w", "n2", "--gres=gpu:1", script="exit 0")
        assert flow.drained("n2").startswith("Prolog error")
        before = written(flow, "n2")
        settled(flow, "n2")
        assert written(flow, "n2") == before
        assert flow.reports(job) == []
        assert any(i.node == "n2" for i in flow.incidents("prolog_error_unexplained"))
    finally:
        flow.lab.configure(hooks=hooks, reconfigure=True)


def phase(flow: Flow, node: str) -> str:
    """Where the drain of a node is on its way, "gone" where there is none."""
    return next((d.phase for d in flow.drains() if d.node == node), "gone")


def text(reason: str) -> str:
    """A reason without Slurm's [user@time] behind it."""
    return reason.rpartition(" [")[0]


def token(reason: str) -> str:
    """What ties a reason of ours to our record of it."""
    return text(reason).rpartition("[")[2].rstrip("]")
