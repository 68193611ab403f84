"""What a refused Prolog does to each kind of job, measured on Slurm alone: a Prolog drains its node and exits 1."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from deploy.simcluster.lab_ground import LabError, short_base
from deploy.simcluster.matrix.gate import GATED
from deploy.simcluster.matrix.parts import older
from deploy.simcluster.matrix.rows import Fate, Row
from deploy.simcluster.matrix.scenario import NEVER
from deploy.simcluster.matrix.stage import Tell, auth
from deploy.simcluster.slurm_lab import SlurmLab

# Slurm's default is 120 s; less than this is not taken (cred_expire=1 stayed 120).
CRED_EXPIRE = 5
AT_ONCE = 4
PATIENCE = 60.0
QUICK = "bf_interval=1,sched_interval=1,batch_sched_delay=0"
NOHOLD = f"SchedulerParameters=nohold_on_prolog_fail,{QUICK}"
# As nodevet's hook does: drained first, so that the reason stays, and only then refused. Only a first attempt is,
# unless the case asks for more; of several nodes the last one refuses, after a while.
PROLOG = """#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
[ "${SLURM_JOB_RESTART_COUNT:-0}" -lt @refusals@ ] || exit 0
nodes=$(scontrol show hostnames "${SLURM_JOB_NODELIST:-$SLURM_NODELIST}")
[ "$(echo "$nodes" | tail -n 1)" = "$SLURMD_NODENAME" ] || exit 0
sleep @delay@
scontrol update nodename="$SLURMD_NODENAME" state=drain reason="refused by a simulated cluster"
date +%s.%N >>@base@/jobs/refused
exit 1
"""
SCRIPT = "date +%s.%N >>started; exit 0"
STARTS = "requeued, starts on other nodes"
HELD = "requeued and held, starts when released"
CANCELLED = "cancelled, never runs"
TOLD = "cancelled, the user is told"
AGAIN = "had ended, is requeued and runs again"
KEPT = "requeued before its script began"
GIVEN_UP = "requeued, then held by slurm, starts when released"


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of job under settings; ``command`` submits it, ``refusals``: how many attempts are refused."""

    job: str
    expected: str
    command: tuple[str, ...] = ("sbatch",)
    settings: tuple[str, ...] = (NOHOLD,)
    nodes: int = 1
    refusals: int = 1
    delay: float = 0.0
    since: str = ""

    @property
    def named(self) -> str:
        """The settings that make the difference, and how long a refused job waits."""
        told = (line.replace(QUICK, "").rstrip(",=") for line in self.settings)
        named = [line.partition("=")[2] if line.startswith("SchedulerParameters") else line for line in told]
        return "; ".join([*(line or "slurm's default" for line in named), f"cred_expire={CRED_EXPIRE}"])


NO_REQUEUE = ("sbatch", "--no-requeue")
FORCED = "PrologFlags=Alloc,ForceRequeueOnFail"
CASES = (
    Case("batch", HELD, settings=(f"SchedulerParameters={QUICK}",)),
    Case("batch", STARTS),
    Case(
        "batch", STARTS, settings=(f"SchedulerParameters=nohold_on_prolog_fail,requeue_delay=1,{QUICK}",), since="25.11"
    ),
    Case("batch --no-requeue", CANCELLED, NO_REQUEUE),
    Case("batch", CANCELLED, settings=(NOHOLD, "JobRequeue=0")),
    Case("batch --no-requeue", STARTS, NO_REQUEUE, (NOHOLD, FORCED), since="23.02"),
    Case("batch, refused twice", GIVEN_UP, settings=(NOHOLD, "MaxBatchRequeue=2"), refusals=2, since="23.02"),
    Case("srun", TOLD, ("srun",)),
    Case("salloc", TOLD, ("salloc",)),
    Case("batch on two nodes, script ends before the refusal", AGAIN, nodes=2, delay=2.0),
)


@dataclass(slots=True)
class Trial:
    """One case on a cluster of its own."""

    case: Case
    lab: SlurmLab
    release: str
    said: str = ""

    def run(self) -> Fate:
        """Submit, have it refused, and watch what becomes of it."""
        job = self._submit()
        if self.case.command[0] != "sbatch":
            told = "Prolog fail" in self.said or "revoked" in self.said
            return self._fate(job, TOLD if told and self._now(job)[0] == "CANCELLED" else "")
        end = self._end(job)
        if end == "held":
            again = len(self._moments("refused")) > 1
            return self._fate(job, GIVEN_UP if again else HELD, released=self._release(job))
        if end == "cancelled":
            return self._fate(job, CANCELLED)
        started = self._moments("started")
        fate = AGAIN if self.case.delay and len(started) > 1 else STARTS
        return self._fate(job, fate, to_start=round(started[-1] - self._moments("refused")[0], 1))

    def _fate(self, job: int, fate: str, to_start: float | None = None, released: float | None = None) -> Fate:
        return Fate(
            job=self.case.job,
            settings=self.case.named,
            release=self.release,
            fate=fate or " ".join(self._now(job)),
            expected=self.case.expected,
            passed=fate == self.case.expected,
            to_start=to_start,
            released=released,
        )

    def _submit(self) -> int:
        nodes = (f"-N{self.case.nodes}", "--exclusive")
        command = self.case.command
        if command[0] == "sbatch":
            job = self.lab.sbatch(*command[1:], *nodes, script=SCRIPT)
            self.lab.wait_for(
                lambda: bool(self._moments("refused")),
                PATIENCE,
                lambda: f"job {job} was not refused: {self._now(job)}",
            )
            return job
        self.said = self.lab.run([*command, *nodes, "true"], check=False, timeout=PATIENCE).stderr
        listed = self.lab.run(["squeue", "-h", "-t", "all", "-O", "JobID:20"]).stdout.split()
        return int(listed[0])

    def _end(self, job: int) -> str:
        """How it goes on: started (again), cancelled, or held."""
        refusals = self.case.refusals
        before = len(self._moments("started")) if self.case.delay else 0

        def seen() -> str:
            state = self._now(job)[0]
            if len(self._moments("refused")) >= refusals and len(self._moments("started")) > before:
                return "started"
            if state == "CANCELLED":
                return "cancelled"
            return "held" if state == "REQUEUE_HOLD" or (state == "PENDING" and self._held(job)) else ""

        self.lab.wait_for(lambda: bool(seen()), PATIENCE, lambda: f"job {job} stays {self._now(job)}")
        return seen()

    def _held(self, job: int) -> bool:
        """Whether an administrator has to release it: its priority is 0."""
        text = self.lab.run(["scontrol", "show", "job", str(job)]).stdout
        return " Priority=0 " in text.replace("\n", " ")

    def _release(self, job: int) -> float:
        """Release it as an administrator does; seconds until it runs."""
        before, asked = len(self._moments("started")), time.time()
        self.lab.run(["scontrol", "release", str(job)])
        self.lab.wait_for(
            lambda: len(self._moments("started")) > before,
            PATIENCE,
            lambda: f"job {job} does not start: {self._now(job)}, {len(self._moments('refused'))} refusals",
        )
        return round(self._moments("started")[-1] - asked, 1)

    def _now(self, job: int) -> tuple[str, str]:
        line = self.lab.run(["squeue", "-h", "-t", "all", "-j", str(job), "-o", "%T|%r"], check=False).stdout
        state, _, reason = line.strip().partition("|")
        return state, reason

    def _moments(self, name: str) -> list[float]:
        """Seconds of the clock at which the job was refused or its script started."""
        with suppress(OSError):
            return [float(line) for line in (self.lab.base / "jobs" / name).read_text().split()]
        return []


def trial(case: Case, release: str) -> Fate:
    """One case from the cluster's start to its end; what cannot be played is one that has not passed."""
    base = short_base("nv-fate-")
    fate = None
    try:
        lab = SlurmLab(base, 2 * case.nodes + case.refusals, gpus=0, cpus=1, extra_conf=_conf(base, case))
        with lab:
            fate = Trial(case, lab, release).run()
    except (LabError, OSError, ValueError, subprocess.SubprocessError) as error:
        return Fate(case.job, case.named, release, "", case.expected, False, trouble=str(error)[:300])
    finally:
        if fate is not None:
            subprocess.run(["rm", "-rf", "--one-file-system", str(base)], check=False)
    return fate


def _conf(base: Path, case: Case) -> str:
    program = base / "prolog"
    text = PROLOG.replace("@refusals@", str(case.refusals)).replace("@delay@", f"{case.delay:g}")
    program.write_text(text.replace("@base@", str(base)))
    program.chmod(0o755)
    return "".join([auth(base, CRED_EXPIRE), f"Prolog={program}\n", *(f"{line}\n" for line in case.settings)])


def measure(release: str, tell: Tell, cases: Sequence[Case] = CASES) -> list[Fate]:
    """Every case that this release knows, several at once, each on a small cluster of its own."""
    known = [case for case in cases if not older(release, case.since)]
    tell(f"  measuring what becomes of {len(known)} kinds of refused jobs")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda case: trial(case, release), known))


def with_gate(rows: Iterable[Row], release: str) -> list[Fate]:
    """The last case again where nodevet's gate holds the first node, as its row of the matrix shows."""
    return [
        Fate(
            job="batch on two nodes, the same with nodevet's gate",
            settings="PrologFlags=Alloc",
            release=release,
            fate=KEPT if row.observed.job == "PENDING" and row.observed.also.startswith(NEVER) else "not held",
            expected=KEPT,
            passed=row.passed,
            trouble=row.trouble,
        )
        for row in rows
        if row.scenario == GATED
    ]
