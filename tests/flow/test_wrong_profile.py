"""One wrong profile makes every node look faulty: no more of them are lost than permits are out."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks.judge.guard import GuardLimits
from deploy.simcluster.cluster import Options
from tests.flow.flow import Flow, running

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

NODES = 8
JOBS = 200
WRONG = Path(__file__).parents[2] / "checks/profiles/hgx-h100.toml"


@pytest.fixture(scope="module")
def flow() -> Iterator[Flow]:
    """The shipped guard, which leaves two nodes of eight to automation; all of that may be leased."""
    with running(Options(nodes=NODES, interval=5.0, server="lease_share = 1.0\n")) as flow:
        yield flow


def roll_out_a_wrong_profile(flow: Flow) -> None:
    """Every agent is told that its node has sixteen GPUs."""
    folder = flow.cluster.base / "profiles.d"
    folder.mkdir()
    text = WRONG.read_text().replace("[checks.gpu_count]\nexpected = 8", "[checks.gpu_count]\nexpected = 16")
    assert "expected = 16" in text
    (folder / "hgx-h100.toml").write_text(text)
    for name in flow.names:
        config = flow.cluster.base / "agents" / name / "nodevet.toml"
        config.write_text(config.read_text().replace("[central]", f'profile_dir = "{folder}"\n[central]', 1))
        os.kill(flow.status(name).pid, signal.SIGHUP)
    for name in flow.names:
        flow.wait(
            lambda n=name: flow.finding(n, "gpu_count_low") is not None,  # type: ignore[misc]
            60,
            lambda n=name: f"{n} does not fail: {[f.code for f in flow.status(n).findings]}",  # type: ignore[misc]
        )


def promised(flow: Flow) -> int:
    guard = flow.cluster.get("guard")
    assert isinstance(guard, dict)
    return int(guard["promised"])


def short_jobs(flow: Flow, count: int) -> None:
    """All of them end, however often one is refused and starts elsewhere."""
    array = flow.lab.sbatch(f"--array=0-{count - 1}", "-n1", "--gres=gpu:1", script="exit 0")
    flow.wait(lambda: not flow.jobs_left(), 150, lambda: f"jobs are left: {flow.jobs_left()[-1500:]}")
    listed = flow.lab.run(["squeue", "-h", "-r", "-t", "all", "-j", str(array), "-O", "State:20"]).stdout.split()
    assert listed == ["COMPLETED"] * count


def held(flow: Flow) -> int:
    """The leases that agents have in hand."""
    return sum(flow.status(name).uplink.leases for name in flow.names)


def admitted(flow: Flow) -> dict[str, int]:
    return {name: flow.status(name).hooks["admitted_without_permit"] for name in flow.names}


def test_a_wrong_profile_takes_no_more_nodes_than_permits_are_out(flow: Flow) -> None:
    """The server is killed before the roll-out, comes back after 200 jobs, and others run with it there."""
    flow.wait(lambda: promised(flow) > 0, 60, "no lease is out")
    flow.wait(lambda: held(flow) == promised(flow), 60, "leases do not arrive")
    leases = promised(flow)
    limits = GuardLimits()
    most = min(limits.drained(NODES), limits.hourly(NODES))
    assert 0 < leases <= most
    flow.cluster.kill_server()
    roll_out_a_wrong_profile(flow)
    before = admitted(flow)
    short_jobs(flow, JOBS)
    lost = flow.out_of_service()
    assert 0 < len(lost) <= leases, f"{lost} with {leases} leases out"
    loud = [name for name, count in admitted(flow).items() if count > before[name]]
    assert set(loud) >= set(flow.names) - set(lost), "who had no permit admitted, and said so"

    flow.cluster.start_server()
    flow.wait(lambda: any(i.closed_at is None for i in flow.incidents("many_gpu_count_low")), 90, "no incident")
    flow.steps(3)
    assert len(flow.out_of_service()) <= most
    short_jobs(flow, JOBS // 4)
    flow.steps(2)
    assert len(flow.out_of_service()) <= most
    assert len([i for i in flow.incidents("many_gpu_count_low") if i.closed_at is None]) == 1
