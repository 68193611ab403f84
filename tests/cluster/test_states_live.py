"""The states of a real node read as what they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slurm.gres import gpu_count, gpu_files
from slurm.reason import Owner, owner_of
from slurm.state import NodeState
from tests.cluster.cluster import Cluster

pytestmark = pytest.mark.cluster


def _both(cluster: Cluster) -> NodeState:
    """The node, asked for alone and among all: both must say the same."""
    one, among = cluster.backend.node(cluster.node), cluster.backend.nodes()[cluster.node]
    assert (one.base, one.flags, one.reason) == (among.base, among.flags, among.reason)
    return one


def _wait(cluster: Cluster, condition: Callable[[NodeState], bool]) -> NodeState:
    """The node once it is as wished."""
    cluster.lab.wait_for(
        lambda: condition(cluster.backend.node(cluster.node)), 30, lambda: str(cluster.backend.node(cluster.node))
    )
    return _both(cluster)


def test_idle(cluster: Cluster) -> None:
    state = _both(cluster)
    assert (str(state), state.known, state.hands_off, state.running_jobs) == ("IDLE", True, None, False)
    assert (state.cpus, state.real_memory, state.partitions, gpu_count(state.gres)) == (8, 4096, ("main",), 4)
    assert state.boot_time is not None and state.slurmd_start_time is not None
    assert state.boot_time < state.slurmd_start_time


def test_mixed_allocated_draining_and_drained(cluster: Cluster) -> None:
    """E10: draining is not drained while a job runs."""
    lab = cluster.lab
    job = lab.sbatch(f"--nodelist={cluster.node}", "-n1", script="sleep 60")
    lab.wait_job(job, "RUNNING")
    assert (_both(cluster).base, _both(cluster).running_jobs) == ("MIXED", True)
    lab.sbatch(f"--nodelist={cluster.node}", "-n7", script="sleep 60")
    _wait(cluster, lambda state: state.base == "ALLOCATED")
    cluster.admin_drain("ticket 12")
    assert (str(_both(cluster)), _both(cluster).drained) == ("ALLOCATED+DRAIN", False)
    lab.run(["scancel", f"--nodelist={cluster.node}"])
    assert owner_of(_wait(cluster, lambda state: state.drained)) is Owner.OTHER


def test_down_and_fail(cluster: Cluster) -> None:
    cluster.admin("state=down", "reason=set down [x] = y | z, a@b")
    state = _both(cluster)
    assert (state.base, state.out_of_service, state.drained) == ("DOWN", True, False)
    assert state.reason is not None
    assert (state.reason.text, state.reason.user) == ("set down [x] = y | z, a@b", "root")
    cluster.admin("state=resume")
    cluster.lab.wait_idle()
    cluster.admin("state=fail", "reason=fail test")
    state = _both(cluster)
    assert (state.flags >= {"FAIL"}, state.out_of_service) == (True, True)
    cluster.admin("state=resume")


def test_a_reservation_and_a_maintenance(cluster: Cluster) -> None:
    """E06: RESERVED alone is no reason to keep the hands off, MAINT is."""
    lab = cluster.lab
    reserve = ["scontrol", "create", "reservation", "user=root", "start=now", "duration=5", f"nodes={cluster.node}"]
    lab.run([*reserve, "reservationname=plain"])
    assert _wait(cluster, lambda state: "RESERVED" in state.flags).hands_off is None
    lab.run(["scontrol", "delete", "reservationname=plain"])
    lab.run([*reserve, "reservationname=maint", "flags=maint"])
    assert _wait(cluster, lambda state: "MAINT" in state.flags).hands_off == "maintenance reservation"


def test_a_planned_reboot(cluster: Cluster) -> None:
    """E05: from the wish on, nobody else touches the node."""
    lab = cluster.lab
    job = lab.sbatch(f"--nodelist={cluster.node}", script="sleep 60")
    lab.wait_job(job, "RUNNING")
    lab.run(["scontrol", "reboot", "asap", "nextstate=resume", "reason=fw update", cluster.node])
    state = _both(cluster)
    assert {"DRAIN", "REBOOT_REQUESTED"} <= state.flags
    assert (state.hands_off, state.next_state) == ("reboot requested", "RESUME")
    lab.run(["scontrol", "cancel_reboot", cluster.node])
    assert _both(cluster).hands_off is None


def test_gres_conf_gives_the_files_of_the_indices(cluster: Cluster) -> None:
    """E61: index in SLURM_JOB_GPUS to device file, for the very configuration that runs."""
    conf = (cluster.lab.base / "etc/gres.conf").read_text()
    state = _both(cluster)
    files = gpu_files(conf, cluster.node, gres=state.gres)
    assert [file.rpartition("/")[2] for file in files] == ["nvidia0", "nvidia1", "nvidia2", "nvidia3"]
