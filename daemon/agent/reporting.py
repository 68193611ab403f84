"""Reports go out at once when something changed, whole every five minutes, and for each hook."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone

import msgspec

from checks.runner import NOT_APPLICABLE
from checks.wire import Decision, Finding, JobAttempt, NodeFacts, Occasion, Report, Unvetted
from daemon.agent.codes import CHECK
from daemon.agent.findings import Findings
from daemon.agent.identity import Identity
from daemon.agent.judge import Judge
from daemon.outbox.outbox import Outbox

log = logging.getLogger(__name__)
BATCH_SECONDS = 1.0
FULL_SECONDS = 300.0
NOTES = 32
UNVETTED = 256
AT_HOOKS = NOT_APPLICABLE("node", reason="asked at a job's hooks only")


@dataclass(slots=True)
class Reporter:
    """Makes reports of present findings and hands them to the outbox.

    ``before`` runs before each report between jobs: it looks at our own state and gives notes. ``resting`` are the
    checks that are asked about one job only: what they found at its hooks is over once a whole report has been made.
    """

    identity: Identity
    outbox: Outbox
    findings: Findings
    judge: Judge
    before: Callable[[], Awaitable[Sequence[str]]]
    facts: NodeFacts = field(default_factory=NodeFacts)
    decision: Decision | None = None
    full_at: float = float("-inf")
    resting: tuple[str, ...] = ()
    _unvetted: list[Unvetted] = field(default_factory=list)
    _changed: set[str] = field(default_factory=set)
    _event: asyncio.Event = field(default_factory=asyncio.Event)

    def changed(self, checks: Iterable[str]) -> None:
        """These checks' findings changed: report them within a second."""
        self._changed.update(checks)
        self._event.set()

    def missed(self, job: JobAttempt, cause: str, at: datetime | None = None) -> None:
        """A job begins or has begun here without a whole answer of ours; the next report tells."""
        when = at or datetime.now(timezone.utc)
        start = Unvetted(job_id=job.job_id, restart_count=job.restart_count, cause=cause, at=when)
        self._unvetted = [*self._unvetted, start][-UNVETTED:]
        self.changed((CHECK,))

    async def run(self) -> None:
        """Report changes a second after the first of them, and everything every five minutes."""
        while True:
            left = self.full_at + FULL_SECONDS - time.monotonic()
            try:
                await asyncio.wait_for(self._event.wait(), max(BATCH_SECONDS, left))
                await asyncio.sleep(BATCH_SECONDS)
            except asyncio.TimeoutError:
                self.full_at = float("-inf")
            self.interval(await self.before())

    @property
    def full_due(self) -> bool:
        """Whether the next report between jobs tells everything."""
        return time.monotonic() - self.full_at >= FULL_SECONDS

    def interval(self, notes: Sequence[str] = ()) -> None:
        """One report between jobs: of what changed, or of everything when that is due."""
        self._event.clear()
        changed, self._changed = self._changed, set()
        full = self.full_due
        everything = self.findings.current()
        self.decision = self.judge.decide("interval", everything)
        if full:
            self.full_at = time.monotonic()
        rest = tuple(
            msgspec.structs.replace(AT_HOOKS, check=name, observed_at=self.findings.wall()) for name in self.resting
        )
        told = (*everything, *rest) if full else tuple(f for f in everything if f.check in changed)
        self.send("interval", told, self.decision, notes=notes, facts=self.facts if full else None)

    def send(
        self,
        occasion: Occasion,
        findings: Sequence[Finding],
        decision: Decision | None,
        *,
        job: JobAttempt | None = None,
        seconds: float = 0.0,
        notes: Sequence[str] = (),
        facts: NodeFacts | None = None,
    ) -> asyncio.Task[bool] | None:
        """Hand one report to the outbox; the task ends with whether it is on disk."""
        if not self.identity.known:
            return None
        unvetted, self._unvetted = self._unvetted, []
        return self.outbox.add(
            Report(
                cluster=self.identity.cluster,
                node=self.identity.node,
                incarnation=self.outbox.incarnation,
                sequence=0,
                occasion=occasion,
                started_at=datetime.now(timezone.utc) - timedelta(seconds=seconds),
                seconds=round(seconds, 6),
                findings=tuple(findings),
                decision=decision,
                job=job,
                boot_id=self.facts.boot_id,
                facts=facts,
                notes=tuple(notes[:NOTES]),
                unvetted=tuple(unvetted),
            )
        )
