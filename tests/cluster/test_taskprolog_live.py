"""On a real Slurm a user reads the line about the node in the job's own output, and no task ever fails for it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.simcluster import lab_ground
from deploy.simcluster.slurm_lab import SlurmLab
from slurm.hook.build import build
from tests.slurm.hook.agent import answer, says, serving

pytestmark = pytest.mark.cluster
LINE = "nodevet: node n1 is faulty (gpu_lost); your job runs here all the same"


@pytest.fixture(scope="module")
def lab() -> Iterator[SlurmLab]:
    """One node whose TaskProlog is the real hook."""
    if reason := lab_ground.cannot_run():
        pytest.skip(reason)
    base = lab_ground.short_base()
    hooks = build(base / "hk", conf=base / "hook.conf")
    (base / "hook.conf").write_text(f"socket={base}/a.sock.hook\nmarks={base}/marks\nstop_file={base}/STOP\n")
    (base / "hook.conf").chmod(0o644)
    with SlurmLab(base, 1, gpus=0, hooks={"TaskProlog": hooks / "nodevet-taskprolog"}) as running:
        yield running
    shutil.rmtree(base)


def run(lab: SlurmLab, *arguments: str) -> str:
    """What a user sees of a job step."""
    return lab.run(["srun", "-N1", *arguments, "/bin/echo", "done"], user="nobody").stdout


def test_the_user_reads_it_once_a_node(lab: SlurmLab) -> None:
    path = Path(lab.base, "a.sock")
    with serving(path, *[says(answer("1", f"{LINE}\nexport EVIL=1\n".encode()))] * 2) as agent:
        path.chmod(0o666)
        seen = run(lab, "-n3")
    assert (seen.count("done"), seen.count(LINE)) == (3, 1)
    assert agent.requests[0].environment()["SLURM_JOB_ID"].isdigit()


def test_without_an_agent_tasks_run_and_nothing_is_said(lab: SlurmLab) -> None:
    assert run(lab, "-n2") == "done\ndone\n"
