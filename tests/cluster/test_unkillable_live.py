"""When a real Slurm cannot kill a job, its program is run and the evidence is there at that moment."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks import Host
from daemon.agent.unkillable import evidence
from deploy.simcluster import hang_fs, lab_ground
from deploy.simcluster.slurm_lab import SlurmLab
from slurm.hook.build import build
from tests.slurm.hook.agent import Agent, answer, serving

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.skipif(hang_fs.cannot_run() is not None, reason=hang_fs.cannot_run() or "usable"),
]
SETTINGS = "UnkillableStepTimeout=5\nKillWait=1\n"


@pytest.fixture
def hung(tmp_path: Path) -> Iterator[Path]:
    """A mount whose server never answers."""
    where = tmp_path / "hung"
    where.mkdir()
    server = hang_fs.start(where)
    yield where
    hang_fs.stop(server, where)


@pytest.fixture
def lab() -> Iterator[SlurmLab]:
    """One node whose UnkillableStepProgram is the real hook."""
    if reason := lab_ground.cannot_run():
        pytest.skip(reason)
    base = lab_ground.short_base()
    hooks = build(base / "hk", conf=base / "hook.conf")
    (base / "hook.conf").write_text(f"socket={base}/a.sock\nmarks={base}/marks\nstop_file={base}/STOP\n")
    (base / "hook.conf").chmod(0o644)
    program = {"UnkillableStepProgram": hooks / "nodevet-unkillable"}
    with SlurmLab(base, 1, gpus=0, hooks=program, extra_conf=SETTINGS) as running:
        yield running
    shutil.rmtree(base)


def test_what_hangs_is_seen_while_it_hangs(lab: SlurmLab, hung: Path) -> None:
    told: list[str] = []

    def look(connection: object, _: threading.Event) -> None:
        told.extend(evidence(Host(), job))
        connection.sendall(answer("1"))  # type: ignore[attr-defined]

    with serving(Path(lab.base, "a.sock"), look) as agent:
        job = lab.sbatch(script=f"exec /usr/bin/stat -f {hung}")
        lab.wait_job(job, "RUNNING")
        lab.wait_for(lambda: " stat state D" in " ".join(evidence(Host(), job)), 30, lambda: "job does not hang")
        lab.run(["scancel", str(job)])
        lab.wait_for(agent.asked.is_set, 60, lambda: f"program was not run: {lab.states()}")
        lab.wait_for(lambda: "Kill task failed" in lab.node_reason("n1"), 60, lambda: lab.node_reason("n1"))
    _told_of(agent, job)
    assert told and told[0].endswith("in state D") and not told[0].endswith(" 0 in state D"), told
    assert any(" stat state D" in line for line in told), told


def _told_of(agent: Agent, job: int) -> None:
    assert agent.requests[0].line == "POST /v1/unkillable HTTP/1.1"
    assert agent.requests[0].environment()["SLURM_JOB_ID"] == str(job)
