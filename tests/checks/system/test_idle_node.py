"""What is left on an idle node is told by its control group and when it lasts, and never while a job runs."""

from __future__ import annotations

import pytest

from checks import Finding, Host
from checks.catalog import load
from checks.runner import run_check
from deploy.simcluster.tree import proc
from tests.fakes import Plant

Tree = dict[str, str | bytes]


def found(host: Host, check: str, **options: object) -> list[Finding]:
    return list(run_check(load()[check], host, options).findings)


def codes(seen: list[Finding]) -> list[str]:
    return [f.code for f in seen]


def rooted(tree: dict[str, str | bytes]) -> Tree:
    return {f"/{path}": content for path, content in tree.items()}


IDLE: Tree = {"/proc/loadavg": "0.10 0.20 0.10 1/900 4242\n", "/sys/devices/system/cpu/online": "0-7\n"}


def process(pid: int, group: str, *, uid: int = 20001, command: str = "python3 train.py") -> Tree:
    files = rooted(proc.process(pid, command=command, uid=uid, started=100, job=None))
    return {**files, f"/proc/{pid}/cgroup": f"0::{group}\n"}


SLICE = "/system.slice"


@pytest.mark.parametrize(
    ("group", "uid", "left"),
    [
        (f"{SLICE}/slurmd.service", 20001, True),
        (f"{SLICE}/slurmstepd.scope/system", 20001, True),
        (f"{SLICE}/gpu01_slurmstepd.scope/system", 20001, True),
        (f"{SLICE}/slurmstepd.scope/job_7/step_0/user/task_0", 20001, False),
        (f"{SLICE}/slurmd.service", 64030, True),
        (f"{SLICE}/slurmd.service", 999, False),
        (f"{SLICE}/grafana.service", 20001, False),
        (f"{SLICE}/docker-0123abcd.scope", 20001, False),
        ("/user.slice/user-20001.slice/session-7.scope", 20001, False),
        ("/user.slice/user-20001.slice/user@20001.service/app.slice/tmux.scope", 20001, False),
        ("/kubepods.slice/kubepods-burstable.slice/pod1", 20001, False),
        ("/slurm/uid_20001/job_7/step_batch", 20001, False),
        ("/", 20001, False),
    ],
)
def test_a_process_is_left_by_its_control_group(plant: Plant, group: str, uid: int, left: bool) -> None:
    """E69, the host's side: what a session or a service runs is nobody's leftover, what escaped from slurmd is."""
    host = plant(IDLE | process(90210, group, uid=uid))
    assert codes(found(host, "idle_node")) == ["ok"], "once is a job that just ends"
    assert codes(found(host, "idle_node")) == (["user_processes_left"] if left else ["ok"])


def test_nothing_is_told_while_a_job_runs(plant: Plant) -> None:
    """Like E61: with a job on the node no process of any user is judged; slurmstepd's own keeper is no job."""
    tree = IDLE | process(90210, f"{SLICE}/slurmd.service") | {"/proc/loadavg": "90.0 90.0 9.0 1/9 1\n"}
    keeper = process(50, f"{SLICE}/slurmstepd.scope/system", uid=0, command="slurmstepd infinity")
    host = plant(tree | keeper)
    assert [codes(found(host, "idle_node")) for _ in range(2)][1] == ["user_processes_left", "idle_load_high"]
    step = rooted(proc.process(51, command="slurmstepd: [7.batch]", uid=0, started=7, job=7))
    for path, content in {
        **step,
        "/proc/51/cmdline": "slurmstepd: [7.batch]",
        "/proc/51/stat": "51 (slurmstepd) S 1 51 51 0 -1 0 0 0 0 0 9 1 0 0 20 0 1 0 7 0\n",
    }.items():
        where = host.path(path)
        where.parent.mkdir(parents=True, exist_ok=True)
        where.write_text(str(content))
    assert codes(found(host, "idle_node")) == ["not_applicable"]
    # Name and words of a process are its user's choice: one of a user's that calls itself a step hides nothing.
    status = host.path("/proc/51/status")
    status.write_text(status.read_text().replace("Uid:\t0\t0\t0\t0", "Uid:\t20001\t20001\t20001\t20001"))
    assert "20001" in status.read_text()
    assert "user_processes_left" in [*codes(found(host, "idle_node")), *codes(found(host, "idle_node"))]


def test_a_load_that_just_falls_is_no_trouble(plant: Plant) -> None:
    host = plant(IDLE | {"/proc/loadavg": "1.0 60.0 90.0 1/900 1\n"})
    assert [codes(found(host, "idle_node")) for _ in range(3)][2] == ["ok"]


def test_a_named_command_is_left_alone(plant: Plant) -> None:
    host = plant(IDLE | process(90210, f"{SLICE}/slurmd.service"))
    assert [codes(found(host, "idle_node", ignore=("python3",))) for _ in range(2)][1] == ["ok"]
