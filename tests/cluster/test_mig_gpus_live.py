"""A job on parts of a GPU is told an index, and that leads to the GPU it is a part of or to none, never to another."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path

import pytest

from daemon.agent.attempt import attempt_of
from deploy.simcluster import lab_ground
from deploy.simcluster.slurm_lab import SlurmLab
from slurm.jobenv import JobEnv

pytestmark = pytest.mark.cluster

TYPE = "1g.10gb"
# One line a part, as a site writes them: parent and capability device. The second GPU's parts come first.
WHOLE = "NodeName=n1 Name=gpu Type={t} MultipleFiles={d}/nvidia{gpu},{d}/nvidia-caps/nvidia-cap{cap}\n"
CAPABILITY_ONLY = "NodeName=n1 Name=gpu Type={t} File={d}/nvidia-caps/nvidia-cap{cap}\n"
PARTS = ((1, 30), (1, 39), (0, 21), (0, 12))


class MigLab(SlurmLab):
    """A lab whose two GPUs are cut into two parts each."""

    line = WHOLE

    def configure(
        self, *, hooks: Mapping[str, Path] | None = None, extra_conf: str | None = None, reconfigure: bool = False
    ) -> None:
        super().configure(hooks=hooks, extra_conf=extra_conf)
        self.conf.write_text(self.conf.read_text().replace("Gres=gpu:4", f"Gres=gpu:{TYPE}:4"))
        text = "".join(self.line.format(t=TYPE, d=self.base / "dev", gpu=gpu, cap=cap) for gpu, cap in PARTS)
        (self.conf.parent / "gres.conf").write_text(text)
        caps = self.base / "dev/nvidia-caps"
        caps.mkdir(exist_ok=True)
        for _, cap in PARTS:
            device = caps / f"nvidia-cap{cap}"
            if not device.exists():
                os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))


class CapabilityLab(MigLab):
    """The same, and gres.conf does not say which GPU a part belongs to."""

    line = CAPABILITY_ONLY


@pytest.mark.parametrize(("kind", "minors"), [(MigLab, [1, 1, 0, 0]), (CapabilityLab, None)])
def test_a_part_leads_to_its_own_gpu_or_to_none(kind: type[MigLab], minors: list[int] | None) -> None:
    """E61: the number of a capability device is no GPU's number, and an unknown GPU is looked at by nobody."""
    if reason := lab_ground.cannot_run():
        pytest.skip(reason)
    base = lab_ground.short_base()
    prolog = base / "prolog"
    prolog.write_text(f"#!/bin/sh\n/usr/bin/env -0 > {base}/jobs/env.$SLURM_JOB_ID\n")
    prolog.chmod(0o755)
    found: dict[int, tuple[int, ...] | None] = {}
    with kind(base, 1, gpus=4, hooks={"Prolog": prolog}) as lab:
        gres_conf = (base / "etc/gres.conf").read_text()
        jobs = [lab.sbatch("-n1", f"--gres=gpu:{TYPE}:1", script="sleep 60") for _ in PARTS]
        for number in jobs:
            lab.wait_job(number, "RUNNING")
            lab.wait_for((base / f"jobs/slurm-{number}.out").exists, 30, lambda: "the script did not start")
            env = JobEnv.parse((base / f"jobs/env.{number}").read_bytes())
            assert env.gpu_indices is not None and len(env.gpu_indices) == 1
            job, why = attempt_of(env, gres_conf, "n1")
            assert job is not None and bool(why) is (minors is None)
            found[env.gpu_indices[0]] = job.gpu_minors
    shutil.rmtree(base)
    assert [found[index] for index in range(4)] == ([None] * 4 if minors is None else [(m,) for m in minors])
