"""A prolog may refuse only with a permit, and a permit means that the node has been drained by us already."""

from __future__ import annotations

import asyncio
import logging
import time
from datetime import timedelta

from api.controller.automatic import drain_node
from api.controller.core import Core
from api.controller.fleet import fleet
from api.controller.records import NewPermit
from checks.judge.context import Context
from checks.judge.decide import decide
from checks.judge.guard import headroom
from checks.wire import Decision, JobAttempt, Lease, PermitAnswer, PermitRequest
from slurm.errors import SlurmError

log = logging.getLogger(__name__)
JOB_SECONDS = 1.0
REPEAT_SECONDS = 600.0


class Permits:
    """Direct permits on request, and leases handed out in advance while the guard has room."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._leases: dict[str, Lease] = {}
        self.late: dict[str, JobAttempt] = {}

    async def permit(self, request: PermitRequest) -> PermitAnswer:
        """Judge the findings again, ask the guard, drain, and grant; every other way out is a denial with its why."""
        core = self._core
        if request.cluster != core.cluster:
            return PermitAnswer(granted=False, why=f"this server drains in cluster {core.cluster}")
        if not core.settings.automation:
            return await self._answer(request, False, False, "automation is off")
        if (again := await asyncio.to_thread(self._repeated, request)) is not None:
            return again
        ends = time.monotonic() + min(request.wait, core.settings.permit_seconds)
        decision = await self._decide(request)
        if decision.wanted != "refuse":
            return await self._answer(request, False, False, f"policy here wants {decision.wanted}: {decision.why}")
        try:
            answer = await asyncio.wait_for(self._drain(request, decision, ends), max(0.1, ends - time.monotonic()))
        except asyncio.TimeoutError:
            answer = await self._answer(request, False, False, "slurm did not take the drain in time")
        if not answer.granted:
            self.late[request.node] = request.job
        return answer

    async def _drain(self, request: PermitRequest, decision: Decision, ends: float) -> PermitAnswer:
        core = self._core
        async with core.lock:
            # The write in its thread is cut off a moment earlier than the answer, so that the answer can say so.
            left = max(0.1, ends - time.monotonic() - 0.1)
            drained = await drain_node(core, request.node, decision, request.findings, job=request.job, timeout=left)
        return await self._answer(request, drained.done, drained.done, drained.why)

    async def _decide(self, request: PermitRequest) -> Decision:
        requeue: bool | None = None
        try:
            job = await self._core.view.call(
                self._core.view.backend.job, request.job.job_id, timeout=min(JOB_SECONDS, request.wait / 2)
            )
            requeue = job.requeue if job is not None else None
        except (SlurmError, TimeoutError) as error:
            log.warning("job not read job=%s why=%s", request.job.job_id, error)
        context = Context(occasion="prolog", now=self._core.clock(), job=request.job, requeue=requeue)
        return decide(request.findings, self._core.policy, context)

    def _repeated(self, request: PermitRequest) -> PermitAnswer | None:
        """The same attempt asked again gets the same answer, not a second permit."""
        since = self._core.clock() - timedelta(seconds=REPEAT_SECONDS)
        for row in self._core.records.permits_of(request.cluster, request.node, since):
            if row["kind"] == "direct" and row["job"] == request.job.key:
                return PermitAnswer(granted=True, permit=row["id"], drained=row["drained"], why=row["why"])
        return None

    async def _answer(self, request: PermitRequest, granted: bool, drained: bool, why: str) -> PermitAnswer:
        core, now = self._core, self._core.clock()
        core.count("permits_granted_total" if granted else "permits_denied_total")
        new = NewPermit(
            cluster=request.cluster,
            node=request.node,
            kind="direct",
            codes=request.decision.codes,
            granted=granted,
            drained=drained,
            why=why,
            job=request.job.key,
            expires_at=now + timedelta(seconds=60),
        )
        permit = await asyncio.to_thread(core.records.add_permit, new, now)
        if granted:
            await asyncio.to_thread(core.solved, request.node, "permit_denied", "permit granted")
        else:
            text = f"job admitted on a faulty node: {request.decision.reason}; no permit: {why}"
            await asyncio.to_thread(core.incident, request.node, "permit_denied", text)
        log.warning("permit node=%s job=%s granted=%s why=%s", request.node, request.job.key, granted, why)
        return PermitAnswer(granted=granted, permit=permit, drained=drained, why=why)

    def leases_for(self, node: str) -> tuple[Lease, ...]:
        """The node's lease, if it holds one that is still good."""
        lease = self._leases.get(node)
        return (lease,) if lease is not None and lease.expires_at > self._core.clock() else ()

    async def lease_out(self, live: list[str]) -> None:
        """Give leases to live nodes, never more than the allowed part of the guard's head-room."""
        core, now = self._core, self._core.clock()
        codes = tuple(sorted(c for c, r in core.policy.codes.items() if r.lease and not r.shadow))
        view = await asyncio.to_thread(fleet, core)
        self._leases = {n: le for n, le in self._leases.items() if le.expires_at > now}
        room = int((headroom(view, core.guard) + len(view.promised)) * core.settings.lease_share) - len(view.promised)
        if not core.settings.automation or not codes:
            return
        for node in [n for n in live if n not in self._leases and n not in view.promised][: max(0, room)]:
            expires = now + timedelta(seconds=core.settings.lease_seconds)
            new = NewPermit(
                cluster=core.cluster,
                node=node,
                kind="lease",
                codes=codes,
                granted=True,
                why="leased",
                expires_at=expires,
            )
            permit = await asyncio.to_thread(core.records.add_permit, new, now)
            self._leases[node] = Lease(permit=permit, codes=codes, expires_at=expires)
