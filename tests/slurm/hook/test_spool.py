"""Beside slurmctld the hook leaves the job's identity in memory, asks nobody and never holds up a job."""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

import pytest

from slurm.jobfacts import JobFacts
from tests.slurm.hook.agent import answer, says, serving
from tests.slurm.hook.rig import Hook
from tests.slurm.recorded import RELEASES
from tests.slurm.recorded import hook as recorded

KINDS = ("prologctld", "epilogctld")
CENTRAL = {
    "SLURM_JOB_ID": "42",
    "SLURM_JOB_RESTART_COUNT": "1",
    "SLURM_ARRAY_JOB_ID": "40",
    "SLURM_ARRAY_TASK_ID": "2",
    "SLURM_JOB_ACCOUNT": "secret",
    "SLURM_JOB_NAME": "secret",
    "SLURM_JOB_USER": "secret",
    "SLURM_JOB_WORK_DIR": "/home/secret",
    "SLURM_JOB_COMMENT": "secret",
}


@pytest.fixture(autouse=True)
def spool(hook: Hook) -> Path:
    place = hook.base / "spool"
    place.mkdir(mode=0o770)
    hook.configure(spool=str(place), deadline_s="60", restart_retry_s="60")
    return place


def quiet(hook: Hook, kind: str = "prologctld", env: dict[str, str] | None = None) -> None:
    """Exit 0, at once, and nobody was asked."""
    with serving(hook.socket, says(answer("1"))) as agent:
        result = hook.run(kind, env=CENTRAL if env is None else env)
    assert (result.code, result.out, agent.requests, hook.causes()) == (0, b"", [], [])
    assert result.seconds < 5


@pytest.mark.parametrize("kind", KINDS)
def test_the_jobs_identity_is_left_and_nothing_private(hook: Hook, spool: Path, kind: str) -> None:
    quiet(hook, kind)
    (path,) = spool.iterdir()
    assert path.name.startswith(f"{kind}.42.1.") and stat.S_IMODE(path.stat().st_mode) == 0o640
    assert b"secret" not in path.read_bytes()
    facts = JobFacts.parse(path.read_bytes())
    assert (facts.job_id, facts.restart_count, facts.array_job_id, facts.array_task_id) == (42, 1, 40, 2)
    assert facts.at is not None and abs(facts.at.timestamp() - time.time()) < 30


@pytest.mark.parametrize("release", RELEASES)
def test_what_slurm_really_tells(hook: Hook, spool: Path, release: str) -> None:
    pairs = (item.split(b"=", 1) for item in recorded(release, "prologslurmctld").split(b"\0") if item)
    quiet(hook, env={k.decode(): v.decode() for k, v in pairs})
    facts = JobFacts.parse(next(spool.iterdir()).read_bytes())
    assert facts.job_id and facts.array_job_id and facts.nodelist and facts.partition


@pytest.mark.parametrize("kind", KINDS)
def test_no_spool_is_no_trouble(hook: Hook, spool: Path, kind: str) -> None:
    spool.rmdir()
    quiet(hook, kind)
    spool.symlink_to(hook.base)
    quiet(hook, kind)


def test_a_spool_open_to_others_is_not_used(hook: Hook, spool: Path) -> None:
    spool.chmod(0o1777)
    quiet(hook)
    assert os.listdir(spool) == []


def test_a_spool_that_nobody_empties_is_bounded(hook: Hook, spool: Path) -> None:
    for number in range(4096):
        (spool / f"x{number}").touch()
    quiet(hook)
    assert len(os.listdir(spool)) == 4096


def test_the_stop_file_and_arguments(hook: Hook, spool: Path) -> None:
    hook.stop_file.write_text("")
    quiet(hook)
    hook.stop_file.unlink()
    hook.configure(spool=str(spool), restart_retry_s="0")
    assert hook.run("prologctld", "--x", env=CENTRAL).code == 0
    assert os.listdir(spool) == []


def test_no_file_may_grow(hook: Hook, spool: Path) -> None:
    assert hook.run("prologctld", env=CENTRAL, wrap=("/usr/bin/prlimit", "--fsize=0")).code == 0
    assert os.listdir(spool) == []
