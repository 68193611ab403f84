"""A real slurmrestd, asked over TCP and a unix socket, says the same as the commands and keeps the same contract."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.simcluster import lab_rest
from deploy.simcluster.lab_rest import SlurmRestd
from deploy.simcluster.slurm_lab import SlurmLab
from slurm import errors
from slurm.commands import Commands
from slurm.proof import prove_writes
from slurm.rest.backend import Rest
from slurm.rest.token import TokenCommand, TokenFile
from slurm.rest.versions import V38, V45
from tests.cluster.cluster import Cluster
from tests.slurm.contract import OURS, Contract

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def restd(lab: SlurmLab) -> Iterator[SlurmRestd]:
    if reason := lab_rest.cannot_run():
        pytest.skip(reason)
    restd = SlurmRestd(lab)
    try:
        restd.start()
        yield restd
    finally:
        restd.stop()


def _rest(lab: SlurmLab, url: str, *, user: str = "root", version: str | None = None, timeout: float = 10.0) -> Rest:
    token = TokenCommand(user, conf=lab.conf)
    return Rest(url, token=token, user=user, beside=Commands(conf=lab.conf), version=version, timeout=timeout)


def _writes(rest: Rest) -> bool:
    return type(rest.api()) is not V38


class TestRealSlurmrestd(Contract):
    @pytest.fixture
    def world(self, restd: SlurmRestd, cluster: Cluster) -> Cluster:
        rest = _rest(cluster.lab, restd.url)
        if not _writes(rest):
            pytest.skip(f"API {rest.api().version} of this slurmrestd cannot change nodes")
        cluster.backend = rest
        return cluster


@pytest.fixture(params=["tcp", "unix"])
def rest(restd: SlurmRestd, cluster: Cluster, request: pytest.FixtureRequest) -> Rest:
    return _rest(cluster.lab, restd.url if request.param == "tcp" else restd.socket_url)


def test_says_what_the_commands_say(cluster: Cluster, rest: Rest) -> None:
    cluster.admin_drain('don\'t "touch" \\ $(x) ü')
    job_id = cluster.lab.sbatch("-N2", "--job-name=x\nJobState=FAILED", script="sleep 60", user="nobody")
    cluster.lab.wait_job(job_id, "RUNNING")
    commands = cluster.backend
    ours, theirs = rest.nodes(), commands.nodes()
    assert {name: str(state) for name, state in ours.items()} == {name: str(state) for name, state in theirs.items()}
    one, same = rest.node(cluster.node), commands.node(cluster.node)
    assert (one.reason, one.partitions, one.gres, one.cpus, one.real_memory, one.boot_time) == (
        same.reason,
        same.partitions,
        same.gres,
        same.cpus,
        same.real_memory,
        same.boot_time,
    )
    assert rest.job(job_id) == commands.job(job_id)
    assert rest.job(99999) is None
    with pytest.raises(errors.NotFound):
        rest.node("zz")
    assert rest.limits() == commands.limits()
    assert rest.ping() is True


def test_the_configuration_without_the_commands_beside(restd: SlurmRestd, cluster: Cluster) -> None:
    alone = Rest(restd.url, token=TokenCommand("root", conf=cluster.lab.conf))
    told, known = alone.limits(), cluster.backend.limits()
    assert told.version == known.version
    if isinstance(alone.api(), V45):
        assert told == known
    else:
        assert (told.prolog_flags, told.message_timeout) == (None, None)


def test_an_account_without_rights(restd: SlurmRestd, cluster: Cluster) -> None:
    """E07: proved at the start; where the API cannot write at all, that is what is said."""
    nobody = _rest(cluster.lab, restd.url, user="nobody")
    assert nobody.node("n1").name == "n1"
    calls: list[Callable[[], None]] = [lambda: nobody.drain("n1", OURS), lambda: prove_writes(nobody)]
    for call in calls:
        with pytest.raises(errors.PermissionDenied if _writes(nobody) else errors.ReadOnly):
            call()
    assert not cluster.backend.node("n1").out_of_service


def test_tokens_that_are_not_accepted(restd: SlurmRestd, cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "token"
    rest = Rest(restd.url, token=TokenFile(path))
    path.write_text(TokenCommand("root", conf=cluster.lab.conf)() + "x")
    with pytest.raises((errors.PermissionDenied, errors.Unreachable), match=r"token|auth"):
        rest.node("n1")
    short = TokenCommand("root", conf=cluster.lab.conf, lifespan=1)()
    path.write_text(short)
    time.sleep(2.5)  # until the token has ended, by slurmctld's clock of whole seconds
    with pytest.raises(errors.PermissionDenied, match="expired"):
        rest.node("n1")


def test_a_controller_that_is_away(restd: SlurmRestd, cluster: Cluster) -> None:
    """E02: bounded, named, and no verdict about a node."""
    quick = _rest(cluster.lab, restd.url, timeout=2.0)
    quick.api()
    patient = _rest(cluster.lab, restd.url, timeout=30.0)
    patient.api()
    cluster.lab.kill_slurmctld()
    try:
        start = time.monotonic()
        with pytest.raises((errors.Timeout, errors.Unreachable)):
            quick.node("n1")
        assert time.monotonic() - start < 9
        with pytest.raises(errors.Unreachable):
            patient.node("n1")
        assert patient.ping() is False
    finally:
        cluster.lab.start_slurmctld()
        cluster.lab.wait_for(cluster.backend.ping, 30, lambda: "slurmctld does not come back")
