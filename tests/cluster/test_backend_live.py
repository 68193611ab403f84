"""A real slurmctld keeps the same contract as its stand-ins."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from deploy.simcluster.slurm_lab import SlurmLab
from slurm import errors
from slurm.commands import Commands
from slurm.ownership import OurRecord, Result, drain_if_free, replace_prolog_error, resume_if_ours
from slurm.proof import prove_writes
from slurm.reason import Owner, owner_of
from slurm.run import Ended
from tests.cluster.cluster import Cluster
from tests.slurm.contract import OURS, Contract

pytestmark = pytest.mark.cluster


class TestRealSlurm(Contract):
    @pytest.fixture
    def world(self, cluster: Cluster) -> Cluster:
        return cluster


def test_an_ordinary_user_may_not_drain(cluster: Cluster) -> None:
    """DESIGN 6: the account of the server needs to be an administrator, and its lack has its own error."""
    base = cluster.lab.base

    def as_nobody(argv: object, **options: object) -> Ended:
        assert isinstance(argv, tuple)
        done = cluster.lab.run([str(word) for word in argv], user="nobody", check=False)
        return Ended(done.returncode, done.stdout.encode(), done.stderr.encode())

    backend = Commands(as_nobody, conf=base / "etc/slurm.conf")
    assert backend.node("n2").base == "IDLE"
    with pytest.raises(errors.PermissionDenied):
        backend.drain("n2", OURS)
    with pytest.raises(errors.PermissionDenied):
        prove_writes(backend)
    assert drain_if_free(backend, "n2", OURS).result is Result.FAILED


def test_a_user_cannot_forge_a_job_by_its_name(cluster: Cluster) -> None:
    """A job's name with line breaks in it writes fields into `scontrol show job`; ours are not read from there."""
    name = "x\n   JobState=COMPLETED Reason=None\n   Requeue=0 Restarts=9"
    job_id = cluster.lab.sbatch(f"--job-name={name}", f"--comment={name}", script="sleep 60", user="nobody")
    cluster.lab.wait_job(job_id, "RUNNING")
    job = cluster.backend.job(job_id)
    assert job is not None
    assert (job.state, job.requeue, job.restart_count) == ("RUNNING", True, 0)


def test_a_refused_prolog_is_replaced_by_our_reason(cluster: Cluster) -> None:
    """E11: Slurm writes a bare "Prolog error"; with our refusal on record the reason becomes ours."""
    (cluster.hooks / f"refuse.{cluster.node}").touch()
    cluster.lab.sbatch(f"--nodelist={cluster.node}", script="true")
    cluster.lab.wait_for(
        lambda: cluster.backend.node(cluster.node).out_of_service, 30, lambda: "the node was not drained by Slurm"
    )
    state = cluster.backend.node(cluster.node)
    assert owner_of(state) is Owner.SLURM
    assert state.reason is not None
    assert (state.reason.text, state.reason.user) == ("Prolog error", "slurm")
    assert replace_prolog_error(cluster.backend, cluster.node, OURS, we_refused=False).result is Result.KEPT
    assert replace_prolog_error(cluster.backend, cluster.node, OURS, we_refused=True).result is Result.WRITTEN
    (cluster.hooks / f"refuse.{cluster.node}").unlink()
    assert resume_if_ours(cluster.backend, cluster.node, OurRecord(OURS)).result is Result.WRITTEN


def test_a_drain_before_the_refusal_keeps_our_reason(cluster: Cluster) -> None:
    """E11: the prolog runs, the node is drained by us, then the prolog refuses: slurmctld writes nothing over it."""
    hold = cluster.hooks / f"hold.{cluster.node}"
    (cluster.hooks / f"refuse.{cluster.node}").touch()
    hold.touch()
    job = cluster.lab.sbatch(f"--nodelist={cluster.node}", script="true")
    cluster.dump("prolog", job, cluster.node)
    assert drain_if_free(cluster.backend, cluster.node, OURS).result is Result.WRITTEN
    hold.unlink()
    cluster.lab.wait_job(job, "PENDING")
    assert owner_of(cluster.backend.node(cluster.node)) is Owner.OURS_AUTOMATIC


def test_a_controller_that_is_away(lab: SlurmLab, cluster: Cluster) -> None:
    """E02: bounded, named, and no verdict about a node."""
    lab.kill_slurmctld()
    try:
        assert cluster.backend.ping() is False
        quick = Commands(conf=lab.conf, timeout=1.0)
        start = time.monotonic()
        with pytest.raises(errors.Timeout, match="scontrol show node"):
            quick._version = (22, 5, 8)
            quick.node("n1")
        assert time.monotonic() - start < 9
        assert drain_if_free(quick, "n1", OURS).result is Result.FAILED
    finally:
        lab.start_slurmctld()
        lab.wait_for(cluster.backend.ping, 30, lambda: "slurmctld does not come back")


def test_a_configuration_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(errors.SlurmError, match=r"scontrol --version|scontrol show"):
        Commands(conf=tmp_path / "none.conf", timeout=2.0).node("n1")
