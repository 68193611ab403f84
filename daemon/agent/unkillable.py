"""What the processes of a job that Slurm cannot kill wait for and hold is written down until none of them is left."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from checks import Host, clean
from checks.fs.mounts import mounts
from checks.wire import JobAttempt
from daemon.agent.answers import Answer
from daemon.agent.loose import Loose
from daemon.agent.reporting import Reporter
from daemon.lanes.pool import LaneError, LanePool
from slurm.jobenv import JobEnv

log = logging.getLogger(__name__)
LANE = "unkillable"
REMAINS = "daemon.agent.unkillable:remains"
WITHIN = 5.0
LOOK_SECONDS = 10.0
LOOKS = 8640
FOLLOWED = 16
IN_A_ROW = 3
NOTE = "unkillable"
PROCESSES_LIMIT = 65536
SHOWN = 12
FRAMES = 8
FILES_LIMIT = 4096
# The field "starttime" of /proc/<pid>/stat, counted behind the name.
START = 19
Process = tuple[int, int]
_JOB_GROUP = re.compile(r"/job_(\d+)(?:/|$)", re.MULTILINE)
_STEPD = re.compile(r"slurmstepd: \[(\d+)[.\]]")


@dataclass(slots=True)
class Unkillable:
    """Answers UnkillableStepProgram; it judges nothing and signals nobody: Slurm drains the node by itself."""

    pool: LanePool
    reporter: Reporter
    pause: float = LOOK_SECONDS
    _followed: set[int] = field(default_factory=set)
    _loose: Loose = field(default_factory=Loose)

    async def answer(self, body: bytes) -> Answer:
        """Collect and report; a lane that does not come back is itself the evidence."""
        job_id = JobEnv.parse(body).job_id
        if job_id is None:
            return Answer(0, "nodevet: no job id, nothing was looked at")
        notes, left = await self._look(job_id, ())
        log.error("event=unkillable job=%d evidence=%r", job_id, notes[:SHOWN])
        self._report(job_id, notes)
        if job_id not in self._followed and len(self._followed) < FOLLOWED:
            self._followed.add(job_id)
            self._loose.spawn(self._follow(job_id, notes, left or ()))
        return Answer(0, f"nodevet: {len(notes)} lines of evidence noted")

    async def _look(self, job_id: int, known: Collection[tuple[int, int]]) -> tuple[list[str], list[Process] | None]:
        """The lines to note, and who is left as (pid, when it started); None where that could not be seen."""
        try:
            found = await self.pool.call(LANE, REMAINS, {"job": job_id, "known": list(known)}, timeout=WITHIN)
        except LaneError as error:
            return [f"evidence not collected: {error}"], None
        lines, left = found if isinstance(found, list | tuple) and len(found) == 2 else ([], [])
        return [clean(line) for line in lines], [(int(pid), int(start)) for pid, start in left]

    async def _follow(self, job_id: int, told: list[str], known: Collection[Process]) -> None:
        """Look again until nothing of the job was left several times in a row, and tell what has changed."""
        clear = 0
        try:
            for _ in range(LOOKS):
                await asyncio.sleep(self.pause)
                notes, left = await self._look(job_id, known)
                known, clear = left or known, clear + 1 if left == [] else 0
                if clear == IN_A_ROW:
                    self._report(job_id, [*notes, f"seen {IN_A_ROW} times in a row"])
                    return
                if notes != told:
                    self._report(job_id, notes)
                    told = notes
        finally:
            self._followed.discard(job_id)

    def _report(self, job_id: int, notes: Sequence[str]) -> None:
        self.reporter.send("epilog", (), None, job=JobAttempt(job_id=job_id), notes=(NOTE, *notes))


def evidence(host: Host, job: int) -> list[str]:
    """The lines of `remains`."""
    return remains(host, job)[0]


def remains(host: Host, job: int, known: Sequence[Sequence[int]] = ()) -> tuple[list[str], list[Process]]:
    """Called in a lane: the job's processes that are left, those in uninterruptible sleep first.

    ``known``: pid and start of those that were the job's when slurmstepd still lived; without control groups nothing
    else tells whose they are. Nothing is read that takes the process's memory lock (cmdline, environ, maps): it may be
    what is held.
    """
    before = {(pid, start) for pid, start in known}
    found = sorted(_processes(host, job, before), key=lambda p: (p.state != "D", p.pid))
    lines = [f"{len(found)} processes of job {job} left, {sum(p.state == 'D' for p in found)} in state D"]
    held: dict[str, set[int]] = {}
    points = _points(host)
    for process in found[:SHOWN]:
        lines.append(_told(host, process))
    for process in found:
        for thing in _held(host, process.pid, points):
            held.setdefault(thing, set()).add(process.pid)
    for thing, pids in sorted(held.items())[:SHOWN]:
        shown = ", ".join(str(pid) for pid in sorted(pids)[:8])
        lines.append(f"{thing} held by {shown}{' ...' if len(pids) > 8 else ''}")
    return lines, [(p.pid, p.start) for p in found]


@dataclass(frozen=True, slots=True)
class _Process:
    pid: int
    parent: int
    comm: str
    state: str
    start: int


def _processes(host: Host, job: int, known: Collection[Process] = ()) -> list[_Process]:
    """Those in the job's control group, and all below its slurmstepd where Slurm uses no control groups."""
    everybody = {p.pid: p for p in _all(host)}
    ours = {pid for pid, p in everybody.items() if (pid, p.start) in known or _groups(host, pid) == job}
    stepds = {pid for pid, p in everybody.items() if p.comm == "slurmstepd" and _steps_of(host, pid) == job}
    below = set(stepds)
    grown = True
    while grown:
        more = {pid for pid, p in everybody.items() if p.parent in below} - below
        below |= more
        grown = bool(more)
    return [everybody[pid] for pid in (ours | below) - stepds if everybody[pid].comm != "slurmstepd"]


def _all(host: Host) -> Iterator[_Process]:
    names = [name for name in os.listdir(host.path("/proc")) if name.isdigit()][:PROCESSES_LIMIT]
    for name in names:
        try:
            head, _, tail = host.read(f"/proc/{name}/stat").rpartition(")")
            words = tail.split()
            start = int(words[START]) if len(words) > START else 0
            yield _Process(int(name), int(words[1]), clean(head.partition("(")[2], 32), words[0], start)
        except (OSError, ValueError, IndexError):
            continue


def _groups(host: Host, pid: int) -> int | None:
    match = _JOB_GROUP.search(_text(host, pid, "cgroup"))
    return int(match[1]) if match else None


def _steps_of(host: Host, pid: int) -> int | None:
    """The job in the title that slurmstepd gives itself; slurmstepd is never what hangs in a device."""
    match = _STEPD.match(_text(host, pid, "cmdline").replace("\0", " "))
    return int(match[1]) if match else None


def _told(host: Host, process: _Process) -> str:
    frames = re.findall(r"\] ([A-Za-z0-9_.]+)", _text(host, process.pid, "stack"))[:FRAMES]
    channel = _text(host, process.pid, "wchan").strip("0\n ")
    where = f": {' < '.join(frames)}" if frames else f" in {channel}" if channel else ""
    return f"pid {process.pid} {process.comm} state {process.state}{where}"


def _points(host: Host) -> dict[str, str]:
    """Network mounts and what is mounted there."""
    try:
        return {point: f"{m.kind} {m.source}" for point, m in mounts(host).items() if m.network}
    except (OSError, ValueError):
        return {}


def _held(host: Host, pid: int, points: dict[str, str]) -> Iterator[str]:
    """Device files and network mounts that the process has open, by the names of its links alone."""
    for target in _links(host, pid):
        if target.startswith(("/dev/nvidia", "/dev/infiniband/")):
            yield target
            continue
        under = [point for point in points if target == point or target.startswith(point.rstrip("/") + "/")]
        if under:
            point = max(under, key=len)
            yield f"{point} ({points[point]})"


def _links(host: Host, pid: int) -> Iterator[str]:
    try:
        names = os.listdir(host.path(f"/proc/{pid}/fd"))[:FILES_LIMIT]
    except OSError:
        names = []
    for link in ["cwd", *(f"fd/{name}" for name in names)]:
        try:
            yield host.link(f"/proc/{pid}/{link}")
        except OSError:
            continue


def _text(host: Host, pid: int, name: str) -> str:
    try:
        return host.read(f"/proc/{pid}/{name}")[:4096]
    except OSError:
        return ""
