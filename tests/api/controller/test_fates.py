"""What Slurm did with a refused job is read from its state and kept."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from api.controller.fates import fate_of
from checks.wire import Decision, JobAttempt
from slurm.job import JobState
from tests.api.controller.fake_slurm import bench


@pytest.mark.parametrize(
    ("job", "attempt", "before", "expected"),
    [
        (JobState(7, "PENDING", held=True, restart_count=1), "7.0", "", "held"),
        (JobState(7, "PENDING", held=False, restart_count=1), "7.0", "held", "waiting"),
        (JobState(7, "CANCELLED", restart_count=0), "7.0", "", "cancelled"),
        (JobState(7, "RUNNING", restart_count=1), "7.0", "waiting", "restarted"),
        (JobState(7, "COMPLETED", restart_count=1), "7.0", "waiting", "restarted"),
        # The refusal has not reached slurmctld yet.
        (JobState(7, "RUNNING", restart_count=0), "7.0", "", None),
        (JobState(7, "COMPLETING", restart_count=0), "7.0", "", None),
        (None, "7.0", "", "forgotten"),
        (None, "7.0", "held", None),
    ],
)
def test_tells_the_fate(job: JobState | None, attempt: str, before: str, expected: str | None) -> None:
    assert fate_of(job, attempt, before) == expected


def test_a_refused_job_is_followed_until_its_end(tmp_path: Path) -> None:
    with bench(tmp_path) as b:
        refused = Decision(verdict="faulty", wanted="refuse", allowed="refuse", codes=("gpu_lost",))
        b.report("n1", occasion="prolog", decision=refused, job=JobAttempt(job_id=7, restart_count=0))
        b.slurm.jobs[7] = JobState(7, "PENDING", "launch failed requeued held", held=True, restart_count=1)
        asyncio.run(b.tick())
        (start,) = b.store.starts_of_job(b.core.cluster, 7)
        assert (start.fate, start.fate_detail) == ("held", "PENDING launch failed requeued held")
