"""What a job that cannot be killed waits for and holds is written down, and nothing of it judges the node."""

from __future__ import annotations

import asyncio
from pathlib import Path

from checks.wire import JobAttempt
from daemon.agent.unkillable import Unkillable, evidence, remains
from daemon.lanes.pool import LaneError
from deploy.simcluster.host import SimHost
from tests.daemon.agent.central_server import until
from tests.daemon.agent.running import RunningAgent
from tests.fakes import Plant

STACK = "[<0>] nvidia_close+0x12/0x40 [nvidia]\n[<0>] __fput+0x9f/0x280\n[<0>] do_exit+0x33/0xb0\n"
MOUNTS = "22 1 8:2 / / rw - ext4 /dev/sda2 rw\n40 22 0:45 / /home rw - nfs4 storage:/home rw\n"


def process(pid: int, comm: str, state: str, parent: int, **files: str) -> dict[str, str]:
    """One process of a planted /proc."""
    return {f"/proc/{pid}/stat": f"{pid} ({comm}) {state} {parent} 1 1 0"} | {
        f"/proc/{pid}/{name.replace('__', '/')}": text for name, text in files.items()
    }


GROUP = "0::/system.slice/slurmstepd.scope/job_42/step_0/user/task_0\n"
TREE = (
    process(7, "python", "D", 6, cgroup=GROUP, stack=STACK, fd__3="-> /dev/nvidia3", cwd="-> /home/u/run")
    | process(8, "x) S 1 (y", "S", 7, cgroup=GROUP, wchan="do_wait", fd__4="-> /home/u/run/log")
    | process(9, "other", "D", 1, cgroup="0::/slurm/job_43/step_0\n", stack=STACK, fd__3="-> /dev/nvidia0")
    | {"/proc/self/mountinfo": MOUNTS, "/proc/1/mountinfo": MOUNTS, "/proc/uptime": "1 1"}
)


def test_the_jobs_own_processes_only(plant: Plant) -> None:
    told = evidence(plant(TREE), 42)
    assert told[0] == "2 processes of job 42 left, 1 in state D"
    assert told[1] == "pid 7 python state D: nvidia_close < __fput < do_exit"
    assert told[2] == "pid 8 x) S 1 (y state S in do_wait"
    assert told[3:] == ["/dev/nvidia3 held by 7", "/home (nfs4 storage:/home) held by 7, 8"]


def test_without_control_groups_the_tree_below_slurmstepd(plant: Plant) -> None:
    tree = (
        process(5, "slurmstepd", "S", 1, cmdline="slurmstepd: [42.batch]\0\0")
        | process(6, "bash", "S", 5)
        | process(7, "python", "D", 6)
        | process(15, "slurmstepd", "S", 1, cmdline="slurmstepd: [421.0]\0")
        | process(16, "innocent", "D", 15)
        | process(17, "forger", "D", 1, cmdline="slurmstepd: [42.batch]\0")
    )
    told = evidence(plant(tree), 42)
    assert [line.split()[:3] for line in told[1:]] == [["pid", "7", "python"], ["pid", "6", "bash"]]


def test_nothing_left_and_nothing_readable(plant: Plant) -> None:
    assert evidence(plant({"/proc/7/stat": "garbage", "/proc/8/cmdline": ""}), 42) == [
        "0 processes of job 42 left, 0 in state D"
    ]


def test_a_fork_bomb_is_bounded(plant: Plant) -> None:
    tree: dict[str, str] = {}
    for pid in range(100, 400):
        tree |= process(pid, "bomb", "D", 1, cgroup=GROUP, fd__3="-> /dev/nvidia0")
    told = evidence(plant(tree), 42)
    assert told[0] == "300 processes of job 42 left, 300 in state D"
    assert len(told) == 14 and told[-1].endswith("107 ...")


def test_the_agent_reports_it_as_evidence(agent: RunningAgent, host: SimHost) -> None:
    root = Path(host.sysroot)
    for name, text in process(4711, "python", "D", 1, cgroup=GROUP, stack=STACK).items():
        (root / name.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        (root / name.lstrip("/")).write_text(text)
    before = agent.status()
    answer = agent.raw("unkillable", b"SLURM_JOB_ID=42\0SLURM_STEP_ID=0")
    assert (answer.status, answer.exit, answer.text) == (200, 0, "nodevet: 2 lines of evidence noted")
    until(lambda: any("unkillable" in r.notes for r in agent.on_disk()), what="report on disk")
    report = next(r for r in agent.on_disk() if "unkillable" in r.notes)
    assert report.job is not None and (report.occasion, report.job.job_id) == ("epilog", 42)
    assert report.notes[2] == "pid 4711 python state D: nvidia_close < __fput < do_exit"
    assert (report.findings, report.decision, agent.status().verdict) == ((), None, before.verdict)


def test_without_a_job_nothing_is_looked_at(agent: RunningAgent) -> None:
    assert agent.raw("unkillable", b"SLURM_JOB_ID=../x").text == "nodevet: no job id, nothing was looked at"


def test_a_known_process_is_followed_by_pid_and_start_where_no_control_group_tells(plant: Plant) -> None:
    """E15: slurmstepd is gone, the process that holds the GPU is not; a pid that was given out anew is another's."""
    stat = "(python) D 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0"
    tree = {"/proc/7/stat": f"7 {stat.format(start=500)}", "/proc/7/fd/3": "-> /dev/nvidia3", "/proc/uptime": "1 1"}
    node = plant(tree)
    lines, left = remains(node, 42, [(7, 500)])
    assert left == [(7, 500)] and lines[0] == "1 processes of job 42 left, 1 in state D"
    assert lines[-1] == "/dev/nvidia3 held by 7"
    assert remains(node, 42, [(7, 499)])[1] == [] == remains(node, 42)[1]


class Pool:
    """Answers as the lane does, from a list; an error where that is what stands there."""

    def __init__(self, *answers: object) -> None:
        self.answers, self.asked = list(answers), []  # type: ignore[var-annotated]

    async def call(self, lane: str, function: str, arguments: dict[str, object], *, timeout: float) -> object:
        self.asked.append(arguments["known"])
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Told:
    def __init__(self) -> None:
        self.notes: list[tuple[str, ...]] = []

    def send(self, *_: object, job: JobAttempt, notes: tuple[str, ...]) -> None:
        assert job.job_id == 42
        self.notes.append(tuple(notes[1:]))


def test_it_is_looked_for_again_until_nothing_was_left_three_times() -> None:
    """E15: who wants to resume such a node must know that the process is really gone.

    A look that failed breaks the row, and only what has changed is told.
    """
    stuck, nothing = ["1 processes of job 42 left, 1 in state D"], ["0 processes of job 42 left, 0 in state D"]
    left = [[7, 500]]
    pool = Pool((stuck, left), (stuck, left), (nothing, []), (nothing, []), LaneError("lane hangs"),
                (nothing, []), (nothing, []), (nothing, []), (stuck, left))  # fmt: skip
    told = Told()

    async def run() -> None:
        made = Unkillable(pool, told, pause=0.0)  # type: ignore[arg-type]
        await made.answer(b"SLURM_JOB_ID=42\0")
        while made._followed:
            await asyncio.sleep(0)

    asyncio.run(run())
    assert told.notes == [
        tuple(stuck),
        tuple(nothing),
        ("evidence not collected: lane hangs",),
        tuple(nothing),
        (*nothing, "seen 3 times in a row"),
    ]
    assert len(pool.answers) == 1 and pool.asked[1:] == [[(7, 500)]] * 7
