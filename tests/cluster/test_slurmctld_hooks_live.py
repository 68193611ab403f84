"""A real slurmctld tells the spool which array a job belongs to, and runs every job with or without it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.simcluster import lab_ground
from deploy.simcluster.slurm_lab import SlurmLab
from slurm.hook.build import build
from slurm.jobfacts import JobFacts

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def lab() -> Iterator[SlurmLab]:
    """Two nodes whose slurmctld runs the real hooks."""
    if reason := lab_ground.cannot_run():
        pytest.skip(reason)
    base = lab_ground.short_base()
    hooks = build(base / "hk", conf=base / "hook.conf")
    (base / "hook.conf").write_text(f"spool={base}/facts\nstop_file={base}/STOP\n")
    (base / "hook.conf").chmod(0o644)
    programs = {f"{kind.title()}Slurmctld": hooks / f"nodevet-{kind}ctld" for kind in ("prolog", "epilog")}
    with SlurmLab(base, 2, gpus=0, hooks=programs) as running:
        yield running
    shutil.rmtree(base)


def facts(lab: SlurmLab, kind: str) -> list[JobFacts]:
    """What lies in the spool now."""
    return [JobFacts.parse(path.read_bytes()) for path in sorted(Path(lab.base, "facts").glob(f"{kind}.*"))]


def test_without_a_spool_jobs_run(lab: SlurmLab) -> None:
    job = lab.sbatch(script="true")
    lab.wait_job(job, "COMPLETED")


def test_arrays_and_how_they_ended(lab: SlurmLab) -> None:
    spool = Path(lab.base, "facts")
    spool.mkdir(mode=0o770)
    shutil.chown(spool, "slurm")
    array = lab.sbatch("--array=1-2", script="exit 3")
    lab.wait_for(lambda: len(facts(lab, "epilogctld")) == 2, 60, lambda: f"{facts(lab, 'epilogctld')}")
    begun, ended = facts(lab, "prologctld"), facts(lab, "epilogctld")
    assert {(f.array_job_id, f.array_task_id) for f in begun} == {(array, 1), (array, 2)}
    assert {f.job_id for f in begun} == {f.job_id for f in ended}
    assert {f.exit_status for f in ended} == {768} and {f.cluster for f in begun} == {lab.cluster}
    assert all(f.nodelist in lab.names for f in begun)
