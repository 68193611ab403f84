"""A prolog may refuse only with a permit, and a permit means that the node has been drained by us already."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone

import msgspec

from api.controller.automatic import Drained, context_of, denied, drain_node, timed
from api.controller.belief import believed
from api.controller.core import Core
from api.controller.fleet import fleet, ruled
from api.controller.leases import Leases
from api.controller.pace import DRAIN, JOB
from api.controller.records import DrainRecord, NewPermit
from api.controller.words import without_accepted
from api.store.keep import Malformed, in_bounds
from checks.judge.decide import decide
from checks.judge.guard import Tally
from checks.wire import Decision, JobAttempt, PermitAnswer, PermitRequest, Report
from slurm.errors import SlurmError

log = logging.getLogger(__name__)
JOB_SECONDS = 1.0
REPEAT_SECONDS = 600.0
TALLY_SECONDS = 1.0
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Late:
    """A job that was admitted before the drain for it had landed."""

    job: JobAttempt
    record: DrainRecord


@dataclass(slots=True)
class Asked:
    """One question under way: whoever repeats it waits for the same end, and it is seen through if nobody waits."""

    task: asyncio.Task[PermitAnswer] | None = None
    given_up: bool = field(default=False)


class Permits:
    """Permits on request; ``late``: by node, what came too late and may have to be put right."""

    def __init__(self, core: Core, leases: Leases) -> None:
        self._core = core
        self._leases = leases
        self._asked: dict[Key, Asked] = {}
        self.late: dict[str, Late] = {}
        self._counting = asyncio.Lock()
        self._tally: Tally | None = None
        self._tally_at = float("-inf")

    async def permit(self, request: PermitRequest) -> PermitAnswer:
        """Judge the findings again, ask the guard, drain, and grant; every other way out is a denial with its why."""
        core = self._core
        if request.cluster != core.cluster:
            return PermitAnswer(granted=False, why=f"this server drains in cluster {core.cluster}")
        try:
            request = bounded(request)
        except Malformed as error:
            return PermitAnswer(granted=False, why=f"request is malformed: {error}")
        if request.lease is not None:
            return await self._leased(request, request.lease)
        if not core.settings.automation:
            return await self._answer(request, Drained(False, "automation is off"))
        wait = min(request.wait, core.settings.permit_seconds)
        asked = self._ask(request)
        assert asked.task is not None
        await asyncio.wait({asked.task}, timeout=max(0.1, wait))
        if asked.task.done():
            return asked.task.result()
        asked.given_up = True
        return await self._answer(request, Drained(False, "slurm did not take the drain in time"))

    def _ask(self, request: PermitRequest) -> Asked:
        key = (request.node, request.job.key)
        asked = self._asked.get(key)
        if asked is None:
            asked = self._asked[key] = Asked()
            asked.task = asyncio.create_task(self._find(request, asked))
            asked.task.add_done_callback(lambda _: self._asked.pop(key, None))
        asked.given_up = False
        return asked

    async def _find(self, request: PermitRequest, asked: Asked) -> PermitAnswer:
        try:
            if (again := await self._repeated(request)) is not None:
                return again
            drained = await self._drain(request, asked)
        except Exception as error:
            # Our own trouble, a full disk for one, admits the job.
            log.exception("permit failed node=%s job=%s", request.node, request.job.key)
            return PermitAnswer(granted=False, why=f"server failed: {type(error).__name__}")
        if asked.given_up:
            if drained.record is not None and (drained.done or drained.unsure):
                self.late[request.node] = Late(request.job, drained.record)
            return PermitAnswer(granted=False, why="too late")
        if drained.unsure and drained.record is not None:
            self.late[request.node] = Late(request.job, drained.record)
        return await self._answer(request, drained)

    async def _drain(self, request: PermitRequest, asked: Asked) -> Drained:
        core = self._core
        left = without_accepted(core.words, request.node, request.findings, core.clock())
        risk = core.risk(request.node) if len(left) < len(request.findings) else ""
        request = msgspec.structs.replace(request, findings=left)
        decision = self._judged(request, None)
        if decision.wanted == "refuse" and (shut := await self._guard_closed(request.node, decision)):
            return shut
        if not await core.pace.turn(JOB + DRAIN, lambda: not asked.given_up):
            return Drained(False, "too many asked at once")
        if decision.wanted == "refuse" and (shut := await self._guard_closed(request.node, decision)):
            core.pace.give(JOB + DRAIN)
            return shut
        decision = await self._decide(request)
        if decision.wanted != "refuse" and risk:
            return Drained(False, risk)
        if decision.wanted != "refuse":
            return Drained(False, f"policy here wants {decision.wanted}: {decision.why}")
        if person := await asyncio.to_thread(believed, core, request.node, decision):
            return Drained(False, person)
        return await drain_node(
            core, request.node, decision, request.findings, job=request.job, wanted=lambda: not asked.given_up
        )

    async def _guard_closed(self, node: str, decision: Decision) -> Drained | None:
        """What the guard says before Slurm is asked about the job: a thousand denials cost slurmctld nothing."""
        core = self._core
        async with self._counting:
            if self._tally is None or time.monotonic() - self._tally_at > TALLY_SECONDS:
                self._tally = Tally(await asyncio.to_thread(fleet, core), core.guard)
                self._tally_at = time.monotonic()
        ruling = ruled(core, self._tally, node, decision.codes[0])
        if ruling.allowed:
            return None
        await asyncio.to_thread(denied, core, node, decision, ruling)
        return Drained(False, f"guard: {ruling.why}")

    async def _decide(self, request: PermitRequest) -> Decision:
        requeue: bool | None = None
        try:
            job = await self._core.view.call(
                self._core.view.backend.job, request.job.job_id, timeout=min(JOB_SECONDS, max(0.1, request.wait / 2))
            )
            requeue = job.requeue if job is not None else None
        except (SlurmError, TimeoutError) as error:
            log.warning("job not read job=%s why=%s", request.job.job_id, error)
        return self._judged(request, requeue)

    def _judged(self, request: PermitRequest, requeue: bool | None) -> Decision:
        context = context_of(self._core, request.findings, "prolog", self._core.clock(), request.node)
        return decide(timed(request.findings), self._core.policy, replace(context, job=request.job, requeue=requeue))

    async def _repeated(self, request: PermitRequest) -> PermitAnswer | None:
        """The same attempt asked again gets the same answer while its node is out of service, not a second permit.

        Back in service, it is another attempt: 20.11 has no count of restarts, and a new Slurm counts its jobs anew.
        """
        found = await asyncio.to_thread(self._granted, request)
        if found is None:
            return None
        try:
            state = await self._core.view.call(self._core.view.backend.node, request.node)
        except (SlurmError, TimeoutError):
            return None
        return found if state.out_of_service else None

    def _granted(self, request: PermitRequest) -> PermitAnswer | None:
        since = self._core.clock() - timedelta(seconds=REPEAT_SECONDS)
        for row in self._core.records.permits_of(request.cluster, request.node, since):
            if row["kind"] == "direct" and row["job"] == request.job.key:
                return PermitAnswer(granted=True, permit=row["id"], drained=row["drained"], why=row["why"])
        return None

    async def _leased(self, request: PermitRequest, lease: str) -> PermitAnswer:
        """A refusal that has happened under a lease: write it down, and give the node our reason if it has none."""
        core = self._core
        spent = await asyncio.to_thread(
            core.records.spend_lease, core.cluster, request.node, lease, request.job.key, core.clock()
        )
        if not spent:
            return PermitAnswer(granted=False, why="lease is not this node's, or is spent")
        self._leases.drop(request.node)
        drained = Drained(False, "automation is off")
        if core.settings.automation:
            drained = await self._drain(request, Asked())
        core.count("leases_used_total")
        log.warning("lease used node=%s job=%s drained=%s", request.node, request.job.key, drained.done)
        return PermitAnswer(granted=True, permit=lease, drained=drained.done, why="leased")

    async def _answer(self, request: PermitRequest, drained: Drained) -> PermitAnswer:
        core, now = self._core, self._core.clock()
        granted, why = drained.done, drained.why
        core.count("permits_granted_total" if granted else "permits_denied_total")
        new = NewPermit(
            cluster=request.cluster,
            node=request.node,
            kind="direct",
            codes=request.decision.codes,
            granted=granted,
            drained=granted,
            why=why,
            job=request.job.key,
            expires_at=now + timedelta(seconds=60),
        )
        permit = await asyncio.to_thread(core.records.add_permit, new, now)
        if granted:
            await asyncio.to_thread(core.solved, request.node, "permit_denied", "permit granted")
        else:
            text = f"job admitted on a faulty node: {request.decision.reason}; no permit: {why}"
            await asyncio.to_thread(core.incident_of_many, request.node, "permit_denied", text)
        log.warning("permit node=%s job=%s granted=%s why=%s", request.node, request.job.key, granted, why)
        return PermitAnswer(granted=granted, permit=permit, drained=granted, why=why)


def bounded(request: PermitRequest) -> PermitRequest:
    """The request with its texts trimmed as a report's are; Malformed where one could never be stored."""
    report = in_bounds(
        Report(
            cluster=request.cluster,
            node=request.node,
            incarnation=request.incarnation,
            sequence=0,
            occasion="prolog",
            started_at=datetime.fromtimestamp(0, timezone.utc),
            seconds=0.0,
            findings=request.findings,
            decision=request.decision,
            job=request.job,
        )
    )
    assert report.decision is not None and report.job is not None
    return msgspec.structs.replace(request, findings=report.findings, decision=report.decision, job=report.job)
