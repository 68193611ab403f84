"""Our own trouble keeps no job for long and drains no node, and what only looks like ours is still found."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from api.store.views import IncidentView
from deploy.simcluster.cluster import Options
from tests.flow.flow import OURS, WIDE_GUARD, Flow, running

pytestmark = [pytest.mark.cluster, pytest.mark.faults, pytest.mark.timeout(600)]

# From the call of a hook that gets no answer to its end: its whole deadline, and what a busy machine needs.
GIVEN_UP = 25.0


@pytest.fixture(scope="module")
def up() -> Iterator[Flow]:
    with running(Options(nodes=3, interval=2.0, server=WIDE_GUARD)) as flow:
        yield flow


@pytest.fixture
def flow(up: Flow) -> Flow:
    up.calm()
    return up


def vetted_on_n2(flow: Flow, *options: str) -> int:
    return flow.lab.sbatch("-w", "n2", "--gres=gpu:2", *options, script="exit 0")


def slurm_is_away(flow: Flow) -> list[IncidentView]:
    """What says that slurmctld is gone: a command that cannot reach it, on a busy machine one that does not end."""
    return [i for code in ("slurm_unreachable", "slurm_timeout") for i in flow.incidents(code)]


def agent_pid(flow: Flow, node: str) -> int:
    return flow.status(node).pid


def test_an_agent_killed_in_the_middle_of_a_prolog_admits_the_job(flow: Flow) -> None:
    host = flow.cluster.hosts["n2"]
    # A process left on the job's GPU keeps the prolog busy for a while.
    host.inject("leftover_process", gpu=host.board.minors.index(0))
    job = vetted_on_n2(flow)
    hook = flow.cluster.base / "hooks/nodevet-prolog"
    flow.wait(lambda: runs(hook, "n2"), 20, "no prolog runs")
    flow.cluster.kill_agent("n2")
    try:
        flow.lab.wait_job(job, "COMPLETED", timeout=GIVEN_UP)
        assert flow.out_of_service() == {}
    finally:
        flow.cluster.start_agent("n2")
    flow.wait(lambda: flow.status("n2").marks >= 1, 30, "the hook's mark is not found")


def runs(program: Path, node: str) -> bool:
    """Whether a hook runs for a node."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if os.readlink(entry / "exe") == str(program):
                    return f"SLURMD_NODENAME={node}".encode() in (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
    return False


def test_an_agent_that_does_not_move_admits_the_job(flow: Flow) -> None:
    with flow.stopped(agent_pid(flow, "n2")):
        job = vetted_on_n2(flow)
        flow.lab.wait_job(job, "COMPLETED", timeout=GIVEN_UP)
    flow.steps()
    assert flow.out_of_service() == {}


def test_a_central_service_that_does_not_move_keeps_no_job(flow: Flow) -> None:
    host, before = flow.cluster.hosts["n2"], flow.status("n2").hooks["admitted_without_permit"]
    with flow.stopped(flow.server_pid):
        job = flow.lab.sbatch("-w", "n[1-3]", "-N3", "--gres=gpu:2", script="exit 0")
        flow.lab.wait_job(job, "COMPLETED", timeout=GIVEN_UP)
        host.nvml.change({"gpu.1.remap.failure": 1})
        flow.rounds("n2", "gpu_remap")
        faulty = vetted_on_n2(flow)
        flow.lab.wait_job(faulty, "COMPLETED", timeout=GIVEN_UP)
        assert flow.status("n2").hooks["admitted_without_permit"] == before + 1
        assert flow.out_of_service() == {}
    assert flow.allowed(faulty, 1) == {"n2": "admit"}
    assert flow.drained("n2").startswith(f"{OURS}gpu_remap_failed ")


def test_a_drain_that_is_due_while_slurmctld_is_dead_comes_when_it_is_back(flow: Flow) -> None:
    # Else the crash would also lose that the node was given back a moment ago.
    flow.lab.saved()
    flow.lab.kill_slurmctld()
    try:
        flow.cluster.hosts["n2"].inject("gpu_lost", gpu=3)
        flow.wait(lambda: any(i.closed_at is None for i in slurm_is_away(flow)), 60, "no incident")
        flow.wait(lambda: flow.cluster.verdicts()["n2"] == "faulty", 20, "the fault is not seen")
    finally:
        flow.lab.start_slurmctld()
    flow.wait(lambda: set(flow.lab.states()) == set(flow.names), 60, "slurmctld is not back")
    assert flow.drained("n2", timeout=60).startswith(f"{OURS}gpu_lost ")
    assert set(flow.out_of_service()) == {"n2"}
    flow.wait(lambda: all(i.closed_at for i in slurm_is_away(flow)), 30, "incident stays open")


@contextmanager
def tiny_disk(flow: Flow, node: str) -> Iterator[None]:
    """The agent's state directory on a file system without a byte left."""
    state = flow.cluster.base / "agents" / node / "state"
    flow.cluster.kill_agent(node)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "full", state], check=True)
    try:
        (state / "filler").write_bytes(bytes(64 << 10))
        flow.cluster.start_agent(node)
        yield
    finally:
        flow.cluster.kill_agent(node)
        subprocess.run(["umount", "--lazy", state], check=True)
        flow.cluster.start_agent(node)


def test_a_full_state_directory_is_loud_and_changes_no_answer(flow: Flow) -> None:
    with tiny_disk(flow, "n2"):
        flow.wait(lambda: flow.status("n2").uplink.limits is not None, 30, "agent is not up")
        job = vetted_on_n2(flow)
        flow.lab.wait_job(job, "COMPLETED", timeout=GIVEN_UP)
        flow.wait(lambda: flow.finding("n2", "state_dir_failed") is not None, 30, "the full disk is no finding")
        found = flow.finding("n2", "state_dir_failed")
        assert found is not None and (found.status, found.blame) == ("unknown", "self")
        assert flow.out_of_service() == {}
        # The decision stands, whether or not the disk takes it.
        flow.cluster.hosts["n2"].inject("gpu_lost", gpu=3)
        assert flow.drained("n2").startswith(f"{OURS}gpu_lost ")


def test_a_mount_that_never_answers_is_shared_and_never_drains(flow: Flow) -> None:
    config = flow.cluster.base / "agents/n2/nodevet.toml"
    before = config.read_text()
    flow.cluster.hosts["n2"].inject("hung_mount", path="/scratch")
    try:
        flow.cluster.kill_agent("n2")
        config.write_text(before + '[checks.mount]\npaths = ["/scratch"]\ninterval = 2.0\ntimeout = 1.0\n')
        flow.cluster.start_agent("n2")
        flow.wait(lambda: flow.finding("n2", "mount_hung") is not None, 60, lambda: f"not found: {flow.ill()['n2']}")
        found = flow.finding("n2", "mount_hung")
        assert found is not None and (found.status, found.blame) == ("fail", "shared")
        flow.wait(lambda: flow.cluster.verdicts()["n2"] == "degraded", 20, "the central service does not know")
        job = vetted_on_n2(flow)
        flow.lab.wait_job(job, "COMPLETED", timeout=GIVEN_UP)
        flow.steps(3)
        assert flow.out_of_service() == {}
    finally:
        flow.cluster.kill_agent("n2")
        config.write_text(before)
        flow.cluster.start_agent("n2")


def test_a_clock_that_is_off_is_shown_and_never_drains(flow: Flow) -> None:
    flow.cluster.hosts["n2"].inject("clock_skew", seconds=300.0)
    flow.wait(lambda: (n := flow.node("n2")).fail + n.warn > 0, 30, "the clock is no finding")
    job = vetted_on_n2(flow)
    flow.lab.wait_job(job, "COMPLETED", timeout=GIVEN_UP)
    flow.rounds("n2", "clock")
    flow.steps(3)
    assert flow.out_of_service() == {}


def test_lines_in_the_kernel_log_that_are_not_the_kernels_prove_nothing(flow: Flow) -> None:
    host = flow.cluster.hosts["n2"]
    address = host.board.gpu_bdf(2).rpartition(".")[0]
    host.kernel_says(f"NVRM: Xid (PCI:{address}): 79, pid=1, name=x, GPU has fallen off the bus.", facility=1)
    with host.kmsg.open("ab") as log:
        log.write(b"\xff\xfe\x00garbage\n6,notanumber,1,-;NVRM: Xid (PCI:0000:4c:00): 79\n" + b"A" * 20_000 + b"\n")
    job = vetted_on_n2(flow)
    flow.lab.wait_job(job, "COMPLETED", timeout=GIVEN_UP)
    flow.rounds("n2", "kernel_xid")
    flow.steps(3)
    assert flow.ill()["n2"] == [] and flow.out_of_service() == {}


@pytest.mark.parametrize("kind", ["prolog", "epilog", "health"])
@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0\0\0=\0",
        b"SLURM_JOB_ID=;rm -rf /\0SLURMD_NODENAME=n2\0",
        b"SLURM_JOB_ID=77\0SLURM_JOB_ID=78\0SLURMD_NODENAME=n2\0SLURM_NODELIST=n[1-\xff\0SLURM_JOB_GPUS=-1,zz\0",
        b"SLURM_JOB_ID=79\0SLURMD_NODENAME=n3\0",
        b"SLURM_JOB_ID=80\0SLURMD_NODENAME=n2\0SLURM_JOB_NUM_NODES=99999\0SLURM_NODELIST=x[1-100000]\0",
        b"SLURM_JOB_ID=81\0SLURMD_NODENAME=n2\0SLURM_JOB_COMMENT=" + b"\"'$(id)\n" * 1000 + b"\0",
        b"A" * 300_000,
    ],
    ids=["nothing", "zeros", "no-number", "twice", "other-node", "many-names", "comment", "too-long"],
)
def test_a_garbled_environment_is_admitted(up: Flow, kind: str, body: bytes) -> None:
    assert up.says("n2", kind, body)[0] == 0
    assert up.out_of_service() == {}


def test_a_driver_that_hangs_is_found_from_the_second_look_on(flow: Flow) -> None:
    """Comes last in this file: what hangs in the driver stays until it lets go."""
    flow.cluster.hosts["n3"].inject("nvml_hang")
    job = flow.lab.sbatch("-w", "n3", "--gres=gpu:2", script="exit 0")
    began = time.monotonic()
    flow.lab.wait_job(job, "COMPLETED", timeout=GIVEN_UP)
    assert time.monotonic() - began < GIVEN_UP
    assert flow.allowed(job, 1) == {"n3": "admit"}
    assert flow.drained("n3", timeout=60).startswith(f"{OURS}gpu_driver_hung ")
    assert set(flow.out_of_service()) == {"n3"}
