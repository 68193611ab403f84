"""`nodevet doctor` against a real slurmctld finds what is wrong there, changes nothing and runs for anybody."""

from __future__ import annotations

import json

import pytest

from tests.cluster.cluster import Cluster
from tests.daemon.cli.command import NOBODY, nodevet

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("user", [None, NOBODY])
def test_the_running_cluster(cluster: Cluster, user: int | None) -> None:
    before = cluster.lab.states()
    base = cluster.lab.base
    env = {"SLURM_CONF": str(cluster.lab.conf), "NODEVET_AGENT_NODE": "n1"}
    env |= {"NODEVET_AGENT_GRES_CONF": str(base / "etc/gres.conf"), "NODEVET_AGENT_SOCKET": str(base / "none.sock")}
    done = nodevet("doctor", "--json", config="", user=user, env=env)
    said = {row["about"]: row for row in json.loads(done.stdout)}
    assert done.returncode == 1, done.stderr
    levels = {about: row["level"] for about, row in said.items()}
    assert (levels["node name"], levels["gres.conf"], levels["clock"], levels["MUNGE"]) == ("ok",) * 4
    assert levels["drain rights"] == "ok" and levels["agent"] == "problem"
    # The lab's prolog is somebody else's.
    assert levels["Prolog"] == "problem"
    # E119: it is kept, and ours joins it.
    assert said["Prolog"]["write"].startswith("keep it: ") and "nodevet-prolog" in said["Prolog"]["write"]
    assert ("need not" in said["drain rights"]["what"]) == (user is not None)
    assert cluster.lab.states() == before


def test_an_account_that_must_drain_and_may_not(cluster: Cluster) -> None:
    done = nodevet("doctor", "--as-service", config="", user=NOBODY, env={"SLURM_CONF": str(cluster.lab.conf)})
    assert done.returncode == 1 and "adminlevel=administrator" in done.stdout
