"""A refusal needs a permit: asked of the central service, or leased before for when that is away."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from checks.wire import Decision, Finding, JobAttempt, PermitRequest
from daemon.agent.budget import Budget
from daemon.agent.identity import Identity
from daemon.agent.leases import LeaseBook
from daemon.agent.loose import Loose
from daemon.outbox.outbox import Outbox
from daemon.uplink.uplink import Uplink, UplinkError

log = logging.getLogger(__name__)
WAY = 0.2
FINDINGS_SENT = 64
AFTERWARDS = 5.0


@dataclass(slots=True)
class Refusal:
    """Turns what is wanted into what is allowed."""

    identity: Identity
    uplink: Uplink
    leases: LeaseBook
    outbox: Outbox
    _loose: Loose = field(default_factory=Loose)

    async def allowed(
        self, decision: Decision, findings: Sequence[Finding], job: JobAttempt, budget: Budget
    ) -> Decision:
        """The decision with what is allowed in it: refuse with a permit, admit without."""
        request = self._request(decision, findings, job, wait=max(0.1, budget.for_permit - WAY))
        try:
            answer = await self.uplink.permit(request, max(0.1, budget.for_permit))
        except UplinkError as error:
            if error.kind in ("refused", "not_allowed", "bad_answer"):
                return _admitted(decision, f"no permit: {error}")
            return await self._leased(decision, request, str(error))
        if answer.granted:
            return msgspec.structs.replace(decision, allowed="refuse", permit=answer.permit, why=answer.why)
        return _admitted(decision, f"no permit: {answer.why or 'not granted'}")

    async def _leased(self, decision: Decision, request: PermitRequest, why: str) -> Decision:
        """Without the service only a lease allows a refusal, and each only once."""
        lease = self.leases.take(decision.codes)
        if lease is None:
            return _admitted(decision, f"no permit and no lease: {why}")
        # A disk that does not take it in time changes nothing: this process will not use the lease again.
        await self.outbox.put("leases", self.leases.document, timeout=0.3)
        used = msgspec.structs.replace(request, lease=lease.permit, wait=AFTERWARDS)
        self._loose.spawn(self._tell(used))
        return msgspec.structs.replace(decision, allowed="refuse", permit=lease.permit, why=f"leased permit: {why}")

    async def _tell(self, request: PermitRequest) -> None:
        """Let the service know that a lease was used, should it be there again; the report says so as well."""
        try:
            await self.uplink.permit(request, AFTERWARDS)
        except UplinkError as error:
            log.warning("event=lease_use_not_told permit=%s why=%r", request.lease, str(error))

    def _request(self, decision: Decision, findings: Sequence[Finding], job: JobAttempt, wait: float) -> PermitRequest:
        causes = [f for f in findings if f.code in decision.codes]
        return PermitRequest(
            cluster=self.identity.cluster,
            node=self.identity.node,
            incarnation=self.outbox.incarnation,
            job=job,
            decision=decision,
            findings=tuple(causes[:FINDINGS_SENT]),
            wait=wait,
        )


def _admitted(decision: Decision, why: str) -> Decision:
    return msgspec.structs.replace(decision, allowed="admit", why=why)
