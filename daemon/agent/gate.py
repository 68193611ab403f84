"""The first node of a job holds its prolog until every live member has answered; the others tell and go on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from checks.wire import GateRequest, JobAttempt, Limits
from daemon.agent.budget import Budget
from daemon.agent.identity import Identity
from daemon.agent.loose import Loose
from daemon.uplink.uplink import Uplink, UplinkError
from slurm.hostlist import HostlistError, expand
from slurm.jobenv import JobEnv

log = logging.getLogger(__name__)
TELL_WITHIN = 5.0
LEAST_WAIT = 0.2


@dataclass(slots=True)
class GateCounts:
    """How gates ended here; for coverage."""

    opened: int = 0
    expired: int = 0
    absent: int = 0
    refused_elsewhere: int = 0
    left: int = 0


@dataclass(slots=True)
class Gate:
    """This node's part in the gates of its jobs; ``missed`` is told of each that did not speak for all its nodes."""

    identity: Identity
    uplink: Uplink
    missed: Callable[[JobAttempt, str], None] = lambda *_: None
    counts: GateCounts = field(default_factory=GateCounts)
    _loose: Loose = field(default_factory=Loose)

    def members(self, env: JobEnv, limits: Limits | None) -> tuple[str, ...]:
        """The job's nodes where there is a gate to pass, else nothing."""
        if limits is None or not limits.gate_possible or env.nodelist is None or (env.num_nodes or 2) < 2:
            return ()
        try:
            nodes = expand(env.nodelist)
        except HostlistError as error:
            log.warning("event=no_gate job=%s why=%r", env.job_id, str(error))
            return ()
        return nodes if len(nodes) >= 2 and self.identity.node in nodes else ()

    def tell(self, job: JobAttempt, answer: Literal["admit", "refuse"]) -> None:
        """Say our answer to the holder, without waiting."""
        self._loose.spawn(self._told(self._request(job, answer), TELL_WITHIN))

    async def pass_through(self, job: JobAttempt, members: tuple[str, ...], budget: Budget) -> str:
        """Admitted here: tell the holder so, or as the holder wait; gives what is worth saying to the log."""
        if not members:
            return ""
        if members[0] != self.identity.node:
            self.tell(job, "admit")
            return ""
        return await self._hold(job, members, budget)

    async def _hold(self, job: JobAttempt, members: tuple[str, ...], budget: Budget) -> str:
        limit = budget.for_gate
        if limit < LEAST_WAIT:
            self._expired(job)
            return "no time left for the job's gate"
        request = self._request(job, "admit", members=members, hold=True, wait=max(0.1, limit - LEAST_WAIT))
        try:
            answer = await self.uplink.gate(request, limit)
        except UplinkError as error:
            self._expired(job)
            return f"job's gate not asked: {error}"
        self.counts.absent += len(answer.absent)
        if answer.refused:
            self.counts.refused_elsewhere += 1
            return f"job refused on {', '.join(answer.refused[:8])}"
        if answer.left_running:
            # Cancelled, or taken back by Slurm: no script of it will start, and nobody has to be waited for.
            self.counts.left += 1
            return "job has left its nodes, its gate waits for nobody"
        if not answer.complete:
            self._expired(job)
            return f"job's gate ended without {', '.join(answer.absent[:8])}"
        self.counts.opened += 1
        if answer.absent:
            self.missed(job, "gate_absent")
        return ""

    def _expired(self, job: JobAttempt) -> None:
        self.counts.expired += 1
        self.missed(job, "gate_expired")

    def _request(
        self,
        job: JobAttempt,
        answer: Literal["admit", "refuse"],
        *,
        members: tuple[str, ...] = (),
        hold: bool = False,
        wait: float = TELL_WITHIN,
    ) -> GateRequest:
        me = self.identity
        return GateRequest(
            cluster=me.cluster, node=me.node, job=job, members=members, answer=answer, hold=hold, wait=wait
        )

    async def _told(self, request: GateRequest, timeout: float) -> None:
        try:
            await self.uplink.gate(request, timeout)
        except UplinkError as error:
            log.warning("event=gate_not_told job=%s why=%r", request.job.key, str(error))
