"""Prolog, epilog and health calls are answered within their budgets, and whatever goes wrong here admits the job."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from checks.runner import Outcome
from checks.wire import Decision, Finding, JobAttempt, Limits, Occasion
from daemon.agent.answers import Answer, Answers
from daemon.agent.attempt import attempt_of
from daemon.agent.budget import Budget
from daemon.agent.codes import CHECK, GPU_MAP_UNKNOWN
from daemon.agent.findings import Findings
from daemon.agent.gate import Gate
from daemon.agent.identity import Identity
from daemon.agent.judge import Judge
from daemon.agent.refusal import Refusal
from daemon.agent.reporting import Reporter
from daemon.agent.schedule import Schedule
from daemon.agent.tasks import TaskLines
from daemon.plan import Instance
from slurm.jobenv import JobEnv

log = logging.getLogger(__name__)
DISK_WITHIN = 1.0
WAIT_STEP = 0.5
# Another look needs this long: one that is cut off would forget what the last one found.
LOOK_LEAST = 1.0
HEALTH_EVERY = 60.0
# What is not required and took longer than this in its lane, seconds, is left to its interval.
QUICK = 0.5


class Lanes(Protocol):
    """What the hooks need of the lanes."""

    async def run_many(
        self, instances: Sequence[Instance], job: JobAttempt | None = None, deadline: float | None = None
    ) -> list[Outcome]: ...


@dataclass(slots=True)
class HookCounts:
    """What hooks were told since the agent started."""

    admitted: int = 0
    refused: int = 0
    admitted_without_permit: int = 0
    not_understood: int = 0
    failed: int = 0


@dataclass(slots=True)
class Hooks:
    """Everything that a hook's call sets in motion."""

    identity: Identity
    lanes: Lanes
    schedule: Schedule
    findings: Findings
    judge: Judge
    reporter: Reporter
    gate: Gate
    refusal: Refusal
    stopped: Callable[[], Awaitable[bool]]
    learn: Callable[[JobEnv], None]
    answers: Answers = field(default_factory=Answers)
    counts: HookCounts = field(default_factory=HookCounts)
    tasks: TaskLines = field(default_factory=TaskLines)
    limits: Limits | None = None
    gres_conf: str = ""
    prolog_age: float = 10.0
    _health_at: float = float("-inf")

    async def answer(self, hook: Occasion, body: bytes, budget: Budget) -> Answer:
        """The answer to one call, always in time; every failure of ours is exit 0 and loud."""
        try:
            return await self._answer(hook, JobEnv.parse(body), budget)
        except Exception:
            log.exception("event=hook_failed hook=%s", hook)
            self.counts.failed += 1
            with contextlib.suppress(Exception):
                self.missed(hook, JobEnv.parse(body), "failed")
            return Answer(0, "nodevet: internal error, nothing was decided; see the agent's log")

    def too_early(self, hook: Occasion, env: JobEnv) -> None:
        """Hooks that come before the agent is ready are let through, loudly."""
        log.error("event=hook_too_early hook=%s", hook)
        self.missed(hook, env, "too_early")

    def missed(self, hook: Occasion, env: JobEnv, cause: str) -> None:
        """A job begins here without a decision; the next report tells."""
        if hook == "prolog" and env.job_id is not None:
            self.reporter.missed(JobAttempt(job_id=env.job_id, restart_count=env.restart_count), cause)

    async def _answer(self, hook: Occasion, env: JobEnv, budget: Budget) -> Answer:
        if hook == "health":
            return self._health()
        self.learn(env)
        told = self.limits is None or self.limits.gpus_told
        job, gpus_unknown = attempt_of(env, self.gres_conf, self.identity.node, told=told)
        if job is None or (env.node is not None and env.node != self.identity.node):
            self.counts.not_understood += 1
            why = "no job id" if job is None else f"node {env.node} asked the agent of {self.identity.node}"
            log.error("event=hook_not_understood hook=%s why=%r problems=%r", hook, why, env.problems)
            return Answer(0, f"nodevet: {why}, nothing was decided")
        if env.problems:
            log.warning("event=environment_garbled hook=%s job=%s problems=%r", hook, job.key, env.problems)
        find = self._epilog if hook == "epilog" else self._prolog
        if hook == "epilog":
            self.answers.ended(job.job_id)
            self.tasks.ended(job.job_id)
        task = self.answers.task(hook, job, lambda: find(env, job, gpus_unknown, budget))
        done, _ = await asyncio.wait({task}, timeout=budget.left)
        if not done:
            self.counts.failed += 1
            self.missed(hook, env, "late")
            log.error("event=hook_late hook=%s job=%s limit_seconds=%g", hook, job.key, budget.answer)
            return Answer(0, "nodevet: no decision in time, job admitted")
        return task.result()

    async def _prolog(self, env: JobEnv, job: JobAttempt, gpus_unknown: str, budget: Budget) -> Answer:
        members = self.gate.members(env, self.limits)
        asked, findings = await self._look(job, gpus_unknown, budget)
        decision = self.judge.decide("prolog", findings, job)
        while decision.wanted == "wait" and budget.left > self.gate_share(members, budget) + WAIT_STEP + LOOK_LEAST:
            await asyncio.sleep(WAIT_STEP)
            asked, findings = await self._look(job, gpus_unknown, budget)
            decision = self.judge.decide("prolog", findings, job)
        if decision.wanted == "refuse" and not await self._hands_off():
            decision = await self.refusal.allowed(decision, findings, job, budget)
        if decision.wanted == "refuse" and decision.allowed is None:
            decision = msgspec.structs.replace(decision, allowed="admit", why="hands off: the STOP file is there")
        if decision.allowed is None:
            decision = msgspec.structs.replace(decision, allowed="admit")
        told = _worth_telling(findings, asked)
        return await self._conclude(job, members, decision, told, budget)

    def gate_share(self, members: tuple[str, ...], budget: Budget) -> float:
        """What has to be left of the answer for the gate."""
        return budget.gate / 2 if members else 0.0

    async def _conclude(
        self,
        job: JobAttempt,
        members: tuple[str, ...],
        decision: Decision,
        told: tuple[Finding, ...],
        budget: Budget,
    ) -> Answer:
        """Report, tell or wait at the gate, and give the answer; a refusal is on disk before it is given."""
        seconds = time.monotonic() - budget.started
        written = self.reporter.send("prolog", told, decision, job=job, seconds=seconds)
        if decision.allowed == "refuse":
            if members:
                self.gate.tell(job, "refuse")
            if written is not None:
                await asyncio.wait({written}, timeout=min(DISK_WITHIN, budget.left))
            self.counts.refused += 1
            log.warning("event=refused job=%s reason=%r permit=%s", job.key, decision.reason, decision.permit)
            return Answer(1, f"nodevet: refused: {decision.reason}")
        note = await self.gate.pass_through(job, members, budget) or self.judge.paused
        self.counts.admitted += 1
        self.tasks.admitted(self.identity.node, job, decision, told)
        if decision.wanted in ("refuse", "drain"):
            self.counts.admitted_without_permit += decision.wanted == "refuse"
            log.error(
                "event=admitted_on_fault job=%s wanted=%s reason=%r why=%r",
                *(job.key, decision.wanted, decision.reason, decision.why),
            )
            return Answer(0, f"nodevet: admitted on a node with a fault: {decision.reason} ({decision.why})")
        return Answer(0, f"nodevet: admitted{': ' + note if note else ''}")

    async def _epilog(self, env: JobEnv, job: JobAttempt, gpus_unknown: str, budget: Budget) -> Answer:
        """Look at the job's devices while they are still nobody else's, report, and never fail."""
        asked, findings = await self._look(job, gpus_unknown, budget, required=False)
        decision = self.judge.decide("epilog", findings, job)
        told = tuple(f for f in findings if f.check in asked)
        self.reporter.send("epilog", told, decision, job=job, seconds=time.monotonic() - budget.started)
        return Answer(0, "nodevet: epilog noted")

    def _health(self) -> Answer:
        """Ask what is due now and report; never wait for anything, Slurm least of all."""
        self.schedule.kick(self.findings.stale(self.schedule.periodic))
        if time.monotonic() - self._health_at >= HEALTH_EVERY:
            self._health_at = time.monotonic()
            findings = self.findings.current()
            self.reporter.send("health", findings, self.judge.decide("health", findings))
        return Answer(0, "nodevet: health noted")

    async def _look(
        self, job: JobAttempt, gpus_unknown: str, budget: Budget, required: bool = True
    ) -> tuple[set[str], tuple[Finding, ...]]:
        """Ask about this job's devices and anew about the node where due; gives the checks asked and all findings."""
        if self.judge.paused:
            return set(), self.findings.current()
        own = [i for i in self.schedule.instances if i.hook_only]
        stale = self._due() if required else []
        outcomes, _ = await asyncio.gather(
            self.lanes.run_many(own, job, budget.for_refresh), self.schedule.refresh(stale, budget.for_refresh)
        )
        mine = [f for outcome in outcomes for f in outcome.findings]
        if gpus_unknown:
            finding = GPU_MAP_UNKNOWN("node", why=gpus_unknown)
            mine.append(msgspec.structs.replace(finding, check=CHECK, observed_at=self.findings.wall()))
        asked = {i.check.name for i in [*own, *stale]} | ({CHECK} if gpus_unknown else set())
        return asked, (*self.findings.current(), *mine)

    def _due(self) -> list[Instance]:
        """What is asked anew before a job: required and stale, or cheap, about this node, and not of this moment.

        No job waits for one that is not required and was slow when it was asked last: its last answer stands.
        """
        stale = self.findings.stale([i for i in self.schedule.periodic if i.check.required])
        older = self.findings.older(self.schedule.cheap, self.prolog_age)
        required = [i for i in older if i.check.required]
        others = self.findings.quick([i for i in older if not i.check.required], QUICK)
        return list({i.name: i for i in [*stale, *required, *others]}.values())

    async def _hands_off(self) -> bool:
        try:
            return await self.stopped()
        except Exception as error:
            # Whether an administrator said stop cannot be told: then nothing is refused.
            log.error("event=stop_file_not_seen error=%r", str(error))
            return True


def _worth_telling(findings: Sequence[Finding], asked: set[str]) -> tuple[Finding, ...]:
    """All findings of every check that was asked now or has something to say."""
    names = asked | {f.check for f in findings if f.status not in ("ok", "skipped")}
    return tuple(f for f in findings if f.check in names)
