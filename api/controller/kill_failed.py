"""Nodes that Slurm drained since a job could not be killed: what is left there, and by opt-in their way back."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from api.controller.automatic import judge_now
from api.controller.clean import not_clean
from api.controller.core import Core, first_lines
from api.controller.orders import new_order
from api.controller.people import row
from api.store.views import ReportView
from slurm.errors import SlurmError
from slurm.ownership import Outcome, Result, kill_failed, resume_kill_failed
from slurm.state import NodeState, Reason

log = logging.getLogger(__name__)
NOTE = "unkillable"
CLEAR = "times in a row"
ACTOR = "controller"
MANY, LIMITED, REPEATED = "kill_task_failed_many", "kill_task_failed_limit", "kill_task_failed_again"
REPORTS = 100
# UnkillableStepProgram runs as long before Slurm's reason as slurmd takes to give up.
BEFORE = timedelta(minutes=10)
LOOK = timedelta(seconds=20)
AGAIN = timedelta(seconds=60)
MANY_NODES = 3
MANY_WITHIN = timedelta(minutes=30)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
# A node that Slurm takes out so again and again has something: by itself it comes back so often a day.
NODE_LIMIT = 2
# What looks have shown is true for so long.
LASTS = timedelta(minutes=5)
_LEFT = re.compile(r"(\d+) processes of job \d+ left, (\d+) in state D")
_PROCESS = re.compile(r"pid (\d+) (.+) state ([A-Z])(?:[: ].*)?")
_HELD = re.compile(r"(\S+)(?: \(.*\))? held by ([0-9, ]+?)(?: \.\.\.)?")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the node's agent saw of the job that could not be killed; ``clear``: nothing is left since ``since``."""

    text: str
    jobs: tuple[int, ...] = ()
    clear: bool = False
    since: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Case:
    """One such node: the reason that stands, what is known, and the looks that were clean so far."""

    reason: Reason
    evidence: Evidence
    looked: datetime
    order: str | None = None
    ordered: datetime | None = None
    rounds: int = 0
    boot: str = ""


class KillFailed:
    """The nodes whose present reason is Slurm's own "Kill task failed", with what their agents say."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._cases: dict[str, _Case] = {}

    def told(self, node: str, now: datetime) -> str:
        """One sentence about what is left there, empty for other nodes."""
        case = self._cases.get(node)
        if case is None:
            return ""
        found, jobs = case.evidence, ", ".join(map(str, case.evidence.jobs))
        if found.clear and found.since is not None:
            minutes = max(0.0, (now - found.since).total_seconds()) / 60
            return f"nothing left of job {jobs} since {minutes:.0f} min"
        return f"job {jobs}: {found.text}" if jobs else found.text

    def way(self, node: str) -> str:
        """What brings such a node back, empty for other nodes."""
        case, settings = self._cases.get(node), self._core.settings
        if case is None:
            return ""
        if not case.evidence.clear:
            return "see that nothing of the job is left, or reboot; then scontrol update nodename=… state=resume"
        if repeated := self._core.notices.text(node, REPEATED):
            return f"{repeated}; then scontrol update nodename=… state=resume"
        if settings.automation and settings.resume_kill_task_failed:
            return f"resumed after clean looks, {case.rounds} of {settings.verify_rounds} so far"
        return "nothing is left: scontrol update nodename=… state=resume"

    async def look(self) -> None:
        """See what is left, say it where one job did this to many nodes, and give back what may go back."""
        core = self._core
        now, states = core.clock(), core.view.states
        mine = {n: s for n, s in states.items() if kill_failed(s)}
        self._cases = {n: c for n, c in self._cases.items() if n in mine and mine[n].reason == c.reason}
        for node, state in mine.items():
            await core.spare(node, self._one(node, state, now))
        await asyncio.to_thread(self._many, now)
        again = {(node, REPEATED) for node in mine}
        await asyncio.to_thread(core.notices.keep, lambda key, _: key[1] == REPEATED, again, "no longer so")
        if not core.settings.automation or not core.settings.resume_kill_task_failed:
            return
        for node, case in list(self._cases.items()):
            if case.evidence.clear and not core.paused(node):
                await core.spare(node, self._step(node, case, mine[node]))

    async def _one(self, node: str, state: NodeState, now: datetime) -> None:
        case = self._cases.get(node)
        if case is not None and now - case.looked < LOOK:
            return
        assert state.reason is not None
        reports = await asyncio.to_thread(
            lambda: self._core.store.recent_reports(self._core.cluster, node, limit=REPORTS)
        )
        found = evidence(reports, state.reason.at)
        fresh = _Case(state.reason, found, now)
        if case is not None and found.clear:
            fresh = replace(case, evidence=found, looked=now)
        self._cases[node] = fresh

    def _many(self, now: datetime) -> None:
        """One job that leaves many nodes so is what to look at, and it is named."""
        lately = {n: c for n, c in self._cases.items() if c.reason.at is None or now - c.reason.at <= MANY_WITHIN}
        if len(lately) >= MANY_NODES:
            jobs = sorted({j for c in lately.values() for j in c.evidence.jobs})
            whose = f"of job {first_lines([str(j) for j in jobs])}" if jobs else "of jobs that nobody named"
            names = first_lines(sorted(lately))
            text = f"slurm drained {len(lately)} nodes because processes {whose} could not be killed ({names}): "
            self._core.incident("", MANY, text + "look at the job, not at the nodes")
        elif self._core.notices.said("", MANY):
            self._core.solved("", MANY, "no longer so")

    async def _step(self, node: str, case: _Case, state: NodeState) -> None:
        """Ask for clean looks one after the other, then give the node back if everybody still allows it."""
        core = self._core
        if not state.drained or not state.responding or state.hands_off:
            return
        if case.rounds >= core.settings.verify_rounds:
            if await asyncio.to_thread(self._current, node, case):
                await self._give_back(node, case)
                return
            case = replace(case, rounds=0, order=None, ordered=None)
        if (waiting := case.order) is not None:
            answered = await asyncio.to_thread(self._answer, node, case)
            if answered is None:
                late = case.ordered is not None and core.clock() - case.ordered > _seconds(core.settings.verify_timeout)
                if not late:
                    return
                core.orders.done([waiting])
                case = replace(case, rounds=0)
            else:
                core.orders.done([waiting])
                case = self._judged(node, case, answered)
                if case.rounds >= core.settings.verify_rounds:
                    self._cases[node] = replace(case, order=None)
                    await self._give_back(node, case)
                    return
        if not case.rounds and case.ordered is not None and core.clock() - case.ordered < AGAIN:
            # A look that was not clean, or not answered, is not repeated without end.
            self._cases[node] = replace(case, order=None)
            return
        order = core.orders.give(core.cluster, node, new_order("verify"))
        self._cases[node] = replace(case, order=order.id, ordered=core.clock())

    def _answer(self, node: str, case: _Case) -> ReportView | None:
        reports = self._core.store.recent_reports(self._core.cluster, node, limit=20)
        found = next((r for r in reports if f"order:{case.order}" in r.notes), None)
        return found if found is not None and found.boot_id == self._core.boot_of(node) else None

    def _current(self, node: str, case: _Case) -> bool:
        """Whether the clean looks are of this boot and of now."""
        timely = case.ordered is not None and abs(self._core.clock() - case.ordered) <= LASTS
        return timely and case.boot == self._core.boot_of(node)

    def _judged(self, node: str, case: _Case, report: ReportView) -> _Case:
        """A look counts where nothing fails, whoever is to blame: a mount that hangs may be what held the job."""
        failing = [f.code or f.check or "?" for f in report.findings if f.status == "fail"]
        why = failing[0] if failing else not_clean(report, (), self._core.policy)
        if why:
            log.info("kill task failed: look not clean node=%s why=%s", node, why)
            return replace(case, rounds=0)
        return replace(case, rounds=case.rounds + 1 if report.boot_id == case.boot else 1, boot=report.boot_id)

    async def _give_back(self, node: str, case: _Case) -> None:
        core = self._core
        why = await asyncio.to_thread(self._held_back, node)
        if why:
            return
        async with core.node_locks[node]:
            pen = await core.pen()
            number = await asyncio.to_thread(self._begin, node, case)
            try:
                outcome = await pen.change(node, resume_kill_failed, case.reason)
            except (SlurmError, TimeoutError) as error:
                outcome = Outcome(Result.FAILED, str(error))
            await asyncio.to_thread(self._written, node, case, number, outcome)

    def _held_back(self, node: str) -> str:
        """Why not now: a fault that would drain the node again, or enough for this hour; reads the database."""
        core, now = self._core, self._core.clock()
        findings = core.store.current_findings(core.cluster, node)
        if not findings or judge_now(core, findings, now).wanted != "admit":
            return "a fault is known"
        times = core.operations.count(ACTOR, "resume", now - DAY, node=node)
        if times >= NODE_LIMIT:
            text = f"given back after Kill task failed {times} times within a day, limit {NODE_LIMIT}: look at the node"
            core.incident(node, REPEATED, text)
            return text
        done = core.operations.count(ACTOR, "resume", now - HOUR)
        if done >= core.settings.kill_failed_hourly:
            text = (
                f"{done} nodes resumed within an hour after Kill task failed, limit {core.settings.kill_failed_hourly}"
            )
            core.incident("", LIMITED, text)
            return text
        if core.notices.said("", LIMITED):
            core.solved("", LIMITED, "there is room again")
        return ""

    def _begin(self, node: str, case: _Case) -> int:
        core = self._core
        jobs = ", ".join(map(str, case.evidence.jobs))
        text = f"Kill task failed: nothing left of job {jobs}, {case.rounds} clean looks"
        number = core.operations.begin("resume", node, text, ACTOR, core.clock())
        core.operations.touches(number, node, None, core.view.states.get(node))
        return number

    def _written(self, node: str, case: _Case, number: int, outcome: Outcome) -> None:
        core = self._core
        done = outcome.result is Result.WRITTEN
        said = self.told(node, core.clock()) if done else outcome.detail
        made = row(core, node, "done" if done else "failed" if outcome.result is Result.FAILED else "unchanged", said)
        core.operations.finish(number, [made])
        core.audit("resume kill failed" if done else "resume not written", node, f"{said}; operation {number}")
        if done:
            core.count("kill_failed_resumes_total")
        # Whatever came of it, the next try begins with fresh looks.
        self._cases[node] = replace(case, rounds=0, order=None)
        log.warning("kill task failed: resume node=%s result=%s why=%s", node, outcome.result.value, said)


def evidence(reports: Iterable[ReportView], at: datetime | None) -> Evidence:
    """What the reports, the newest first, say of jobs that could not be killed about the time of Slurm's reason."""
    newest: dict[int, ReportView] = {}
    for report in reports:
        timely = at is None or report.started_at >= at - BEFORE
        if report.job is not None and report.notes[:1] == (NOTE,) and timely:
            newest.setdefault(report.job.job_id, report)
    if not newest:
        return Evidence("no evidence: UnkillableStepProgram is not ours, or the agent was away")
    jobs = tuple(sorted(newest))
    left = [text for job in jobs if (text := _left(newest[job].notes[1:]))]
    if left:
        return Evidence("; ".join(left), jobs)
    since = max(r.started_at for r in newest.values())
    seen = all(CLEAR in " ".join(r.notes) for r in newest.values()) and (at is None or since > at)
    return Evidence("nothing left at the last look", jobs, seen, since)


def _left(notes: Iterable[str]) -> str:
    """What is left by these lines, those in state D and what they hold first; empty where nothing is."""
    lines = list(notes)
    head = _LEFT.fullmatch(lines[0]) if lines else None
    if head is None:
        return lines[0] if lines else "no evidence was noted"
    if head[1] == "0":
        return ""
    held: dict[str, list[str]] = {}
    for line in lines:
        if match := _HELD.fullmatch(line):
            for pid in match[2].split(", "):
                held.setdefault(pid, []).append(match[1])
    told = [
        f"{m[2]}[{m[1]}] in state {m[3]}{' holds ' + ', '.join(held[m[1]][:3]) if m[1] in held else ''}"
        for line in lines
        if (m := _PROCESS.fullmatch(line))
    ]
    return first_lines(told, 3) or lines[0]


def _seconds(value: float) -> timedelta:
    return timedelta(seconds=value)
