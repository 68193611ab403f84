"""A lab brings up a real Slurm cluster, runs jobs on it and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.simcluster import lab_ground, ports, processes, slurm_conf
from deploy.simcluster.lab_ground import LabError, short_base
from deploy.simcluster.slurm_lab import SlurmLab

needs_slurm = pytest.mark.skipif(lab_ground.cannot_run() is not None, reason=str(lab_ground.cannot_run()))


@pytest.fixture(scope="module")
def lab() -> Iterator[SlurmLab]:
    if reason := lab_ground.cannot_run():
        pytest.skip(reason)
    base = short_base()
    with SlurmLab(base, 4) as running:
        yield running
    shutil.rmtree(base)


@pytest.mark.cluster
def test_four_nodes_are_idle_and_run_one_task_each(lab: SlurmLab) -> None:
    done = lab.run(["srun", "-N4", "--gres=gpu:2", "sh", "-c", "echo $SLURMD_NODENAME $CUDA_VISIBLE_DEVICES"])
    assert sorted(done.stdout.split("\n")) == ["", "n1 0,1", "n2 0,1", "n3 0,1", "n4 0,1"]


@pytest.mark.cluster
def test_an_ordinary_user_can_submit(lab: SlurmLab) -> None:
    job = lab.sbatch("-N1", script="id -un", user="nobody")
    assert lab.wait_job(job, "COMPLETED", "FAILED") == "COMPLETED"
    assert (lab.base / f"jobs/slurm-{job}.out").read_text() == "nobody\n"


@pytest.mark.cluster
def test_a_reason_reads_back_whole(lab: SlurmLab) -> None:
    reason = 'quoted "text" a=b C=d [x] $(reboot)'
    lab.run(["scontrol", "update", "nodename=n4", "state=drain", f"reason={reason}"])
    assert lab.node_state("n4") == "IDLE+DRAIN"
    assert lab.node_reason("n4").startswith(f"{reason} [root@")
    lab.run(["scontrol", "update", "nodename=n4", "state=resume"])
    lab.wait_idle()


@pytest.mark.cluster
@needs_slurm
def test_a_killed_controller_comes_back_with_what_it_had_saved() -> None:
    base = short_base()
    with SlurmLab(base, 1) as lab:
        lab.run(["scontrol", "update", "nodename=n1", "state=drain", "reason=by hand"])
        # slurmctld saves within seconds, not at once: a crash in between loses the drain.
        saved = base / "state/node_state"
        lab.wait_for(lambda: saved.exists() and b"by hand" in saved.read_bytes(), 20, lambda: "never saved")
        lab.kill_slurmctld()
        assert lab.run(["scontrol", "ping"], check=False).stdout.splitlines()[0].endswith("is DOWN")
        lab.start_slurmctld()
        lab.wait_for(lambda: lab.states().get("n1") == "drain", 20, lambda: f"n1 is {lab.states()}")
        assert lab.node_reason("n1").startswith("by hand")
    shutil.rmtree(base)


@pytest.mark.cluster
def test_a_command_that_fails_says_why(lab: SlurmLab) -> None:
    with pytest.raises(LabError, match="scontrol show node n99 ended with 1"):
        lab.node_state("n99")


@pytest.mark.cluster
@needs_slurm
def test_hooks_run_and_nothing_is_left_behind() -> None:
    base = short_base()
    hook = base / "prolog"
    seen = base / "jobs/prolog.env"
    hook.write_text(f"#!/bin/sh\nenv > {seen}.new && mv {seen}.new {seen}\n")
    hook.chmod(0o755)
    lab = SlurmLab(base, 1, gpus=2, hooks={"Prolog": hook}, extra_conf="KillWait=9\nPrologFlags=Alloc,Serial")
    with lab:
        job = lab.sbatch("--gres=gpu:1", script="sleep 300 & sleep 300")
        lab.wait_job(job, "RUNNING")
        lab.wait_for(seen.exists, 20, lambda: "the prolog did not run")
        shown = lab.run(["scontrol", "show", "config"]).stdout
        # munged, slurmctld with its script daemon, slurmd; then a stepd, the script and its two sleeps
        lab.wait_for(lambda: len(processes.of_lab(lab.base)) >= 8, 20, lambda: "the job's processes did not start")
        before = processes.of_lab(lab.base)
    assert "SLURM_JOB_GPUS=0" in seen.read_text().splitlines()
    assert "Alloc,Serial" in shown
    assert not {pid for pid in before if processes.alive(pid)}
    assert processes.of_lab(lab.base) == set()
    shutil.rmtree(base)


def test_an_extra_line_replaces_the_setting_of_the_same_key() -> None:
    text = slurm_conf.slurm_conf(
        Path("/b"),
        nodes=["n1", "n2"],
        ports=[1, 2, 3],
        cluster="c",
        gpus=0,
        cpus=2,
        hooks={"Epilog": Path("/e")},
        extra="MessageTimeout=7\nPartitionName=a Nodes=n1",
    )
    assert [line for line in text.splitlines() if line.startswith("MessageTimeout")] == ["MessageTimeout=7"]
    assert [line for line in text.splitlines() if line.startswith("Partition")] == ["PartitionName=a Nodes=n1"]
    assert "Epilog=/e" in text.splitlines()
    assert "Port=3" in text and "Gres" not in text


def test_gres_lines_name_each_nodes_own_files() -> None:
    assert slurm_conf.gres_conf(["n1", "n2"], 8, "/h/{node}/dev/nvidia") == (
        "NodeName=n1 Name=gpu File=/h/n1/dev/nvidia[0-7]\nNodeName=n2 Name=gpu File=/h/n2/dev/nvidia[0-7]\n"
    )


def test_a_reserved_port_is_ours_and_yet_can_be_served_on() -> None:
    (holder,) = ports.reserve(1)
    with holder, socket.socket() as other, socket.socket() as daemon:
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", ports.number(holder)))
        daemon.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        daemon.bind(("0.0.0.0", ports.number(holder)))
        daemon.listen()


def test_a_base_closed_to_others_is_refused(tmp_path: Path) -> None:
    closed = tmp_path / "c"
    closed.mkdir(mode=0o700)
    with pytest.raises(LabError, match=r"closed to other users|too long"):
        lab_ground.prepare(closed / "lab", devices=0)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "PATH", "/nowhere")
    assert lab_ground.missing_packages() == ["munge", "slurm-client", "slurmctld", "slurmd"]


def test_a_short_base_is_open_to_all() -> None:
    base = short_base()
    assert stat.S_IMODE(base.stat().st_mode) == 0o755
    base.rmdir()


def test_ending_a_lab_spares_the_shell_it_is_ended_from(tmp_path: Path) -> None:
    base = tmp_path.resolve()
    caller = (
        "import subprocess, sys; from pathlib import Path; from deploy.simcluster import processes;"
        "one = subprocess.Popen(['sleep', '60']);"
        "assert processes.of_lab(Path(sys.argv[1])) == {one.pid}, processes.of_lab(Path(sys.argv[1]));"
        "assert processes.end(processes.of_lab(Path(sys.argv[1]))) == set(); one.wait()"
    )
    shell = ["sh", "-c", '"$0" -c "$1" "$2"; exit 7', sys.executable, caller, str(base)]
    done = subprocess.run(
        shell,
        env={**os.environ, processes.MARK: str(base)},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (7, "")
