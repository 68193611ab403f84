"""One real Slurm cluster for the tests of this folder, whose hooks write down their environment."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from deploy.simcluster import lab_ground, lab_rest
from deploy.simcluster.slurm_lab import SlurmLab
from tests.cluster.cluster import Cluster

HOOK = """\
#!/bin/sh
# Ended by NUL and moved into place whole, so that nobody reads half of it.
/usr/bin/env -0 > {dir}/.$SLURM_JOB_ID.$SLURMD_NODENAME.{kind}
/bin/mv {dir}/.$SLURM_JOB_ID.$SLURMD_NODENAME.{kind} {dir}/{kind}.$SLURM_JOB_ID.$SLURMD_NODENAME
while [ {kind} = prolog ] && [ -e {dir}/hold.$SLURMD_NODENAME ]; do /bin/sleep 0.05; done
if [ {kind} = prolog ] && [ -e {dir}/refuse.$SLURMD_NODENAME ]; then exit 1; fi
exit 0
"""


@pytest.fixture(scope="package")
def lab() -> Iterator[SlurmLab]:
    """A cluster of four nodes with four GPUs each."""
    if reason := lab_ground.cannot_run():
        pytest.skip(reason)
    base = lab_ground.short_base()
    hooks = {}
    for kind in ("Prolog", "Epilog"):
        hook = base / kind
        hook.write_text(HOOK.format(dir=base / "hooks", kind=kind.lower()))
        hook.chmod(0o755)
        hooks[kind] = hook
    (base / "hooks").mkdir()
    # No node is rebooted: the one test that asks for it takes the wish back while a job holds the node.
    extra = "RebootProgram=/bin/true\n" + ("" if lab_rest.cannot_run() else lab_rest.settings(base))
    with SlurmLab(base, 4, gpus=4, cpus=8, hooks=hooks, extra_conf=extra) as running:
        yield running
    shutil.rmtree(base)


@pytest.fixture
def cluster(lab: SlurmLab) -> Iterator[Cluster]:
    """The cluster, with every node idle before the test and no job left after it."""
    cluster = Cluster(lab)
    cluster.calm()
    yield cluster
    cluster.clear()
