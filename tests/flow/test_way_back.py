"""On real Slurm a node proves itself as a job that nobody else's can precede, and a maintenance ends with looks."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from api.routes.shapes import Page
from api.service_port import LookView, MoveView
from deploy.simcluster.cluster import Options
from tests.flow.flow import OURS, WIDE_GUARD, Flow, running

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
CHECK = f"exec {sys.executable} -I -m daemon --config {{base}}/agents/$0/nodevet.toml check --json --only-fail"
TRIAL = f"""
verify_by = "job"
verify_rounds = 1
trial_seconds = 60.0
trial_command = ["/bin/sh", "-c", "sleep 2; test -e {{base}}/refuse && exit 7; {CHECK}", "%n"]
"""


@pytest.fixture(scope="module")
def flow() -> Iterator[Flow]:
    with running(Options(nodes=2, interval=2.0, poll=2.0, server=TRIAL + WIDE_GUARD)) as up:
        yield up


def reservations(flow: Flow) -> str:
    text = flow.lab.run(["scontrol", "-o", "show", "reservation"]).stdout
    return "" if "No reservations" in text else text


def drained(flow: Flow, node: str) -> int:
    """The node is drained by us for a fault that has gone since; a job of a user waits for it and for no other."""
    flow.cluster.hosts[node].inject("gpu_reset_required", gpu=3)
    flow.wait(lambda: "DRAIN" in flow.lab.node_state(node), 60, "not drained")
    waiting = flow.lab.sbatch(f"--nodelist={node}", script="exit 0")
    flow.cluster.hosts[node].heal()
    return waiting


def moves(flow: Flow, node: str) -> list[str]:
    client = flow.cluster.central()
    try:
        return [m.new for m in reversed(client.get(f"nodes/sim/{node}/moves", Page[MoveView]).items)]
    finally:
        client.close()


def test_our_job_first_and_a_server_killed_meanwhile_lets_nobody_in(flow: Flow) -> None:
    users = drained(flow, "n1")
    flow.wait(lambda: "nodevet_" in flow.lab.run(["squeue", "-h", "-t", "R", "-O", "Name:40"]).stdout, 60, "no trial")
    flow.cluster.kill_server()
    assert "DRAIN" not in flow.lab.node_state("n1") and "nodevet_" in reservations(flow)
    assert flow.lab.job_state(users) == "PENDING"
    flow.wait(lambda: "nodevet_" not in flow.lab.run(["squeue", "-h", "-O", "Name:40"]).stdout, 60, "ours does not end")
    assert flow.lab.job_state(users) == "PENDING" and "nodevet_" in reservations(flow)
    flow.cluster.start_server()
    flow.lab.wait_job(users, "COMPLETED", timeout=90)
    assert reservations(flow) == "" and flow.audit("n1", "trial passed")
    assert {"drained", "verifying"} <= set(moves(flow, "n1"))


def test_a_job_that_fails_leaves_the_node_drained_for_a_person(flow: Flow) -> None:
    flow.calm()
    refuse = flow.cluster.base / "refuse"
    refuse.touch()
    try:
        users = drained(flow, "n2")
        flow.wait(lambda: bool(flow.audit("n2", "trial failed")), 90, lambda: str(flow.why("n2")))
        assert "DRAIN" in flow.lab.node_state("n2") and flow.lab.node_reason("n2").startswith(OURS)
        assert reservations(flow) == "" and flow.lab.job_state(users) == "PENDING"
        flow.wait(lambda: any("failed its trial" in d.exit for d in flow.drains()), 30, lambda: str(flow.drains()))
    finally:
        refuse.unlink()


def test_a_maintenance_records_only_and_ends_with_a_look_at_every_node(flow: Flow) -> None:
    flow.calm()
    words = ["starttime=now", "duration=60", "users=root", "flags=maint,ignore_jobs", "nodes=ALL"]
    flow.lab.run(["scontrol", "create", "reservation", "reservationname=work", *words])
    flow.wait(lambda: all(flow.node(n).service == "held" for n in ("n1", "n2")), 60, "not held")
    flow.cluster.hosts["n2"].inject("gpu_lost", gpu=3)
    flow.wait(lambda: flow.finding("n2", "gpu_lost") is not None, 30, "not seen")
    flow.steps(2)
    assert flow.out_of_service() == {}
    flow.lab.run(["scontrol", "delete", "reservationname=work"])
    flow.wait(lambda: looks(flow) == {"n1": "clean", "n2": "bad"}, 90, lambda: str(looks(flow)))
    flow.wait(lambda: flow.lab.node_reason("n2").startswith(OURS + "gpu_lost"), 40, "not judged as ever")
    assert "DRAIN" not in flow.lab.node_state("n1")


def looks(flow: Flow) -> dict[str, str]:
    client = flow.cluster.central()
    try:
        return {v.node: v.state for v in client.get("looks", Page[LookView]).items if v.why.startswith("maintenance")}
    finally:
        client.close()
