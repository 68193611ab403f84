"""Under every PrologFlags a sound node's jobs run and a faulty node's do not, and what becomes of each job is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.cluster.hook_bench import Bench, bench
from tests.flow.flow import OURS

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

FORCE_REQUEUE = (23, 2, 0)
RUN_IN_JOB = (24, 11, 0)
ENDED_ONE_WAY = frozenset({"CANCELLED"})
# A step that fails before its first task: FAILED, from 26.05 on CANCELLED.
STEP_FAILS = frozenset({"CANCELLED", "FAILED"})
# And the user's own shell may have ended before Slurm takes the allocation away.
SHELL_ENDS = STEP_FAILS | {"COMPLETED"}


@dataclass(frozen=True, slots=True)
class Row:
    """One setting of PrologFlags and what has to come of it.

    ``gate``: nodes of a job wait for each other. ``fates``: what may become of the refused srun and salloc and of the
    refused batch job that is not to be requeued. ``alone``: releases whose jobs of several nodes never start with it.
    ``skips``: a step may start on a node before the node's prolog does, and then that never runs.
    """

    flags: str
    gate: bool = True
    since: tuple[int, int, int] = (20, 11, 0)
    srun: frozenset[str] = ENDED_ONE_WAY
    salloc: frozenset[str] = ENDED_ONE_WAY
    no_requeue: frozenset[str] = ENDED_ONE_WAY
    parent: str = "slurmd"
    alone: tuple[int, int] | None = None
    skips: bool = False


ROWS = (
    Row("Alloc"),
    Row("", gate=False, srun=STEP_FAILS, salloc=SHELL_ENDS),
    Row("Alloc,Contain"),
    Row("Alloc,Serial", gate=False),
    Row("Alloc,NoHold", skips=True),
    Row("Alloc,ForceRequeueOnFail", since=FORCE_REQUEUE, no_requeue=frozenset({"PENDING"})),
    # 24.11 never starts the prolog of some nodes of a job there.
    Row("Alloc,RunInJob", since=RUN_IN_JOB, parent="slurmstepd", alone=(24, 11)),
    # Last: the node that refused a job that is not to be requeued takes no other there, and the job's script is started
    # on it for a moment all the same.
    Row("Alloc,DeferBatch", since=FORCE_REQUEUE, no_requeue=frozenset({"CANCELLED", "FAILED"})),
)


@pytest.fixture(scope="module")
def up() -> Iterator[Bench]:
    with bench(6) as made:
        yield made


@pytest.fixture(params=ROWS, ids=[row.flags or "none" for row in ROWS])
def row(request: pytest.FixtureRequest, up: Bench) -> Iterator[Row]:
    """A row whose flags are in force, on a cluster where nothing is left of the row before."""
    row: Row = request.param
    if up.release < row.since:
        pytest.skip(f"Slurm {up.release[0]}.{up.release[1]:02d} has no such flag")
    up.use_flags(row.flags)
    yield row
    up.calm()
    if row.parent != "slurmd":
        for name in up.names:  # slurmd of 26.05 does not unlearn it, and some of 24.11 hang
            up.lab.kill_slurmd(name)
            up.lab.start_slurmd(name)


def several(up: Bench, row: Row) -> bool:
    """Whether jobs of several nodes are part of a row."""
    return row.alone != up.release[:2]


def test_a_row_of_the_matrix(up: Bench, row: Row) -> None:
    assert up.status("n1").uplink.limits is not None
    before = up.status("n1").gate
    sound(up, row, wide=several(up, row))
    opened = up.status("n1").gate["opened"] - before["opened"]
    assert opened == int(row.gate and several(up, row)), (before, up.status("n1").gate)
    assert up.out_of_service() == {}
    faulty(up, row, wide=several(up, row))
    up.steps(2)
    assert all(OURS in said for said in up.out_of_service().values()), up.out_of_service()


def script(up: Bench) -> str:
    """A batch script that leaves its attempt and node in a file, and then runs a task on each of its nodes."""
    return "echo $SLURM_RESTART_COUNT $SLURMD_NODENAME >> ran.$SLURM_JOB_ID; srun hostname"


def wrote(up: Bench, job: int) -> str:
    """What such a script has written, once for each start."""
    path = up.lab.base / "jobs" / f"ran.{job}"
    return path.read_text() if path.exists() else ""


def sound(up: Bench, row: Row, *, wide: bool) -> None:
    """Every kind of job at once on sound nodes: all run, each vetted on each of its nodes and on its own GPUs only."""
    width = ("-w", "n[4-5]", "-N2") if wide else ("-w", "n4", "-N1")
    nodes = int(width[2][2:])
    batch = up.lab.sbatch("-w", "n[1-3]", "-N3", "--gres=gpu:2", script=script(up)) if wide else 0
    srun = up.start("srun", *width, "--gres=gpu:1")
    salloc = up.start("salloc", *width, "--gres=gpu:3", script="srun hostname")
    array = up.lab.sbatch("-w", "n6", "--array=0-1", "--gres=gpu:1", script="sleep 1")
    cpus = up.lab.sbatch("-w", "n6", "-n1", script="exit 0")
    numbers = {name: up.number(name) for name in (srun, salloc)}
    assert [up.ended(name)[0] for name in (srun, salloc)] == [0, 0]
    up.lab.wait_for(lambda: not up.jobs_left(), 60, up.jobs_left)
    if wide:
        assert up.lab.job_state(batch) == "COMPLETED" and wrote(up, batch).split() == ["n1"]
        assert up.minors(batch, 3) == dict.fromkeys(("n1", "n2", "n3"), (0, 1))
        assert up.allowed(batch, 3) == dict.fromkeys(("n1", "n2", "n3"), "admit")
        assert {name for _, node, name in up.ran(batch) if node == "n3"} == {"90-site", "10-site"}
        assert {parent.partition("-")[0] for parent in up.parents(batch)} == {row.parent}
    for name, gpus in ((srun, 1), (salloc, 3)):
        seen = on_each(up, row, numbers[name], ("n4", "n5")[:nodes])
        assert {len(found or ()) for found in seen.values()} <= {gpus}, seen
    assert up.minors(cpus, 1) == {"n6": ()}
    tasks = [
        int(job) for job in up.lab.run(["squeue", "-h", "-r", "-t", "all", "-j", f"{array}", "-o", "%A"]).stdout.split()
    ]
    assert len(tasks) == 2 and [list(up.allowed(task, 1).values()) for task in tasks] == [["admit"], ["admit"]]
    assert {parent.partition("-")[0] for task in tasks for parent in up.parents(task)} == {row.parent}


def on_each(up: Bench, row: Row, job: int, nodes: tuple[str, ...]) -> dict[str, tuple[int, ...] | None]:
    """The GPUs that each node's prolog found, once all have told; a node that Slurm ran no prolog on is counted."""
    if not row.skips:
        assert set(up.minors(job, len(nodes))) == set(nodes)
    up.wait(
        lambda: set(nodes) <= {r.node for r in up.reports(job)} | up.without_prolog(job), 30, f"job {job} is untold"
    )
    return {r.node: r.job.gpu_minors for r in up.reports(job) if r.job is not None}


def faulty(up: Bench, row: Row, *, wide: bool) -> None:
    """Every kind of job at once, each with a faulty node: each is refused once, and each such node drained by us."""
    for node in ("n3", "n4", "n5"):
        up.breaks(node, "gpu_reset_required", gpu=2)
    up.breaks("n6", "gpu_lost", gpu=2)
    options = ("-w", "n[1-3]", "-N3") if wide else ("-w", "n3", "-N1")
    batch = up.lab.sbatch(*options, "--gres=gpu:2", script=script(up))
    srun = up.start("srun", "-w", "n4", "--gres=gpu:1", script="echo ran")
    salloc = up.start("salloc", "-w", "n5", "--gres=gpu:1", script="srun echo ran")
    stubborn = up.lab.sbatch("-w", "n6", "--no-requeue", "--gres=gpu:1", script="exit 3")
    numbers = {name: up.number(name) for name in (srun, salloc)}
    reasons = {node: up.drained(node) for node in ("n3", "n4", "n5", "n6")}
    assert all(r.startswith(f"{OURS}gpu_{'lost' if n == 'n6' else 'reset_required'} ") for n, r in reasons.items())
    up.lab.wait_job(batch, "PENDING")
    assert up.restarts(batch) == 1
    allowed = up.allowed(batch, 3 if wide else 1)
    assert allowed == ({"n1": "admit", "n2": "admit"} if wide else {}) | {"n3": "refuse"}
    # A refusal stops the chain on its node: what stands behind us is not called there.
    assert {name for _, node, name in up.ran(batch) if node == "n3"} == {"90-site"}
    up.lab.wait_job(numbers[srun], *row.srun)
    up.lab.wait_job(numbers[salloc], *row.salloc)
    up.lab.wait_job(stubborn, *row.no_requeue)
    assert all("ran" not in up.gone(name) for name in (srun, salloc))
    for job, node in ((numbers[srun], "n4"), (numbers[salloc], "n5"), (stubborn, "n6")):
        assert up.allowed(job, 1) == {node: "refuse"}
    assert set(up.out_of_service()) == {"n3", "n4", "n5", "n6"}
    if row.gate and wide:
        assert wrote(up, batch) == ""
