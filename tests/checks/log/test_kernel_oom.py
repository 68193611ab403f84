"""A process killed for want of memory is told by whose limit it was, never by a name that a user chose."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.log.kernel_oom import KEPT, kernel_oom
from checks.wire import Finding
from tests.fakes import Plant

V2 = "/system.slice/slurmstepd.scope/job_42/step_0/user/task_0"
V1 = "/slurm/uid_1001/job_42/step_batch/task_0"
HEAD = "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=task_0,mems_allowed=0-1,"


def memcg(limit: str, group: str, comm: str = "python") -> str:
    return f"{HEAD}oom_memcg={limit},task_memcg={group},task={comm},pid=4711,uid=1001"


def everywhere(group: str, comm: str = "python") -> str:
    head = "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
    return f"{head}task_memcg={group},task={comm},pid=4711,uid=1001"


class Log:
    """A host whose kernel log a test appends to; the first round has been read."""

    def __init__(self, plant: Plant, path: Path, before: str = "") -> None:
        self.path, self.sequence, self.clock = path, 100, 1000.0
        path.write_text("6,1,1000000,-;Linux version 6.8\n" + before)
        self.host = plant({"/proc/uptime": "9000.0 1.0", "/proc/sys/kernel/random/boot_id": "boot-1\n"}, kmsg=path)
        self.host.clock = lambda: self.clock
        assert list(kernel_oom(self.host)) == []

    def found(self, *texts: str, priority: int = 6) -> list[Finding]:
        with self.path.open("a") as file:
            for text in texts:
                self.sequence += 1
                file.write(f"{priority},{self.sequence},100000000,-;{text}\n")
        return list(kernel_oom(self.host))


@pytest.fixture
def log(plant: Plant, tmp_path: Path) -> Log:
    return Log(plant, tmp_path / "kmsg")


@pytest.mark.parametrize(
    ("line", "code", "target"),
    [
        (memcg("/system.slice/slurmstepd.scope/job_42", V2), "oom_job", "job 42"),
        (memcg(V2, V2 + "/docker/abc"), "oom_job", "job 42"),
        (memcg("/slurm/uid_1001/job_42", V1), "oom_job", "job 42"),
        (f"Task in {V1} killed as a result of limit of /slurm/uid_1001/job_42", "oom_job", "job 42"),
        (memcg("/system.slice/telegraf.service", "/system.slice/telegraf.service"), "oom_service", "node"),
        (memcg("/slurm", V1), "oom_service", "node"),
        (everywhere(V2), "oom_node", "node"),
        (everywhere("/"), "oom_node", "node"),
        ("Out of memory: Kill process 4711 (python) score 905 or sacrifice child", "oom_node", "node"),
    ],
)
def test_whose_limit_it_was(log: Log, line: str, code: str, target: str) -> None:
    assert [(f.code, f.target, f.status) for f in log.found(line)] == [(code, target, "warn")]


def test_the_victim_of_a_whole_node_is_named_and_not_blamed(log: Log) -> None:
    (found,) = log.found(everywhere(V2))
    assert found.blame == "config" and "python of job 42 was killed" in found.message
    (found,) = log.found(everywhere("/init.scope", "sshd"))
    assert "sshd of no job was killed (2 in all)" in found.message


@pytest.mark.parametrize(
    "comm", ["a,task=b,pid=1,", "x,oom_memcg=/job_7", ",task_memcg=/job", "job_7/", "x\x1b[2J\n", "oom-kill:constr"]
)
def test_a_process_name_does_not_speak_for_another_job(log: Log, comm: str) -> None:
    found = log.found(memcg("/slurm/uid_1001/job_42", V1, comm))
    assert [f.target for f in found] in ([], ["job 42"])
    assert all("\x1b" not in f.message for f in found)


def test_the_groups_below_a_jobs_own_do_not_speak_for_another_job(log: Log) -> None:
    """With delegated control groups a user makes groups of any name below that of the job."""
    assert [f.target for f in log.found(memcg(f"{V2}/job_7", f"{V2}/job_7/x"))] == ["job 42"]


def test_only_the_kernels_own_lines_of_our_time_count_and_only_for_a_while(plant: Plant, tmp_path: Path) -> None:
    line = memcg("/slurm/uid_1001/job_42", V1)
    log = Log(plant, tmp_path / "kmsg", f"6,50,90000000,-;{line}\n")
    assert log.found(line, priority=14) == []
    assert (
        log.found("Memory cgroup out of memory: Killed process 4711 (python) total-vm:1kB", "user says " + line) == []
    )
    assert [f.evidence["kills"] for f in log.found(line, line)] == [2]
    log.clock += 901.0
    assert log.found() == []


def test_a_flood_of_jobs_is_bounded(log: Log) -> None:
    lines = [memcg(f"/slurm/uid_1/job_{n}", f"/slurm/uid_1/job_{n}/step_0") for n in range(1, KEPT + 50)]
    found = log.found(*lines)
    assert len(found) == KEPT and found[-1].target == f"job {KEPT + 49}"
