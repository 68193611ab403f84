"""With GPUs of several types, slurm.conf and not gres.conf decides which index means which device file."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from deploy.simcluster import lab_ground
from deploy.simcluster.slurm_lab import SlurmLab
from slurm.commands import Commands
from slurm.gres import gpu_files
from slurm.jobenv import JobEnv

pytestmark = pytest.mark.cluster

GRES = "gpu:t0:1,gpu:t1:1,gpu:t2:1,gpu:t3:1"


class TypedLab(SlurmLab):
    """A lab whose GPUs have a type each, in slurm.conf in another order than in gres.conf."""

    def configure(
        self, *, hooks: Mapping[str, Path] | None = None, extra_conf: str | None = None, reconfigure: bool = False
    ) -> None:
        super().configure(hooks=hooks, extra_conf=extra_conf)
        self.conf.write_text(self.conf.read_text().replace("Gres=gpu:4", f"Gres={GRES}"))
        lines = [f"NodeName=n1 Name=gpu Type=t{i} File={self.base}/dev/nvidia{i}\n" for i in (3, 1, 0, 2)]
        (self.conf.parent / "gres.conf").write_text("".join(lines))


def test_the_index_of_a_job_leads_to_its_own_device() -> None:
    """E61: a wrong map would judge the GPU of another job."""
    if reason := lab_ground.cannot_run():
        pytest.skip(reason)
    base = lab_ground.short_base()
    prolog = base / "prolog"
    prolog.write_text(f"#!/bin/sh\n/usr/bin/env -0 > {base}/jobs/env.$SLURM_JOB_ID\n")
    prolog.chmod(0o755)
    with TypedLab(base, 1, gpus=4, hooks={"Prolog": prolog}) as lab:
        state = Commands(conf=lab.conf).node("n1")
        assert state.gres == GRES
        files = gpu_files((base / "etc/gres.conf").read_text(), "n1", gres=state.gres)
        found = {}
        for kind in ("t3", "t1", "t0", "t2"):
            job = lab.sbatch(f"--gres=gpu:{kind}:1", script="sleep 30")
            lab.wait_job(job, "RUNNING")
            lab.wait_for((base / f"jobs/slurm-{job}.out").exists, 30, lambda: "the script did not start")
            (index,) = JobEnv.parse((base / f"jobs/env.{job}").read_bytes()).gpu_indices or ()
            found[kind] = files[index].rpartition("/")[2]
    shutil.rmtree(base)
    assert found == {"t0": "nvidia0", "t1": "nvidia1", "t2": "nvidia2", "t3": "nvidia3"}
