"""The real pyslurm, where one that matches the installed Slurm is there, keeps the same contract."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from slurm.commands import Commands
from slurm.pyslurm.backend import PySlurm
from tests.cluster.cluster import Cluster
from tests.slurm.contract import Contract

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module", autouse=True)
def _installed() -> None:
    done = subprocess.run([sys.executable, "-I", "-c", "import pyslurm"], capture_output=True, text=True, timeout=60)
    if done.returncode != 0:
        pytest.skip(f"no pyslurm that fits the Slurm installed here: {done.stderr.strip().splitlines()[-1]}")


class TestRealPySlurm(Contract):
    @pytest.fixture
    def world(self, cluster: Cluster) -> Iterator[Cluster]:
        backend = PySlurm(beside=Commands(conf=cluster.lab.conf), conf=cluster.lab.conf)
        cluster.backend = backend
        yield cluster
        backend.close()
