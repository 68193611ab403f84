"""The agent's side of decide(): the policy in force and what this node's plan says about staleness."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timezone

from checks.judge.context import Context
from checks.judge.decide import decide
from checks.judge.policy import Policy
from checks.wire import Decision, Finding, JobAttempt, Occasion
from daemon.plan import Instance


class Judge:
    """Decides with the same function everywhere; ``quiet`` and ``paused`` say why hands are off.

    ``silenced``: checks whose findings a person wants to lead to nothing for a time.
    """

    def __init__(self, policy: Policy, instances: Sequence[Instance]) -> None:
        self.policy = policy
        self.quiet = ""
        self.paused = ""
        self.silenced: frozenset[str] = frozenset()
        self._required: dict[bool, frozenset[str]] = {}
        self._stale_after: dict[str, float] = {}
        self.use(policy, instances)

    def use(self, policy: Policy, instances: Sequence[Instance]) -> None:
        """Go by another policy or plan from now on."""
        self.policy = policy
        required = [i for i in instances if i.check.required]
        self._required = {
            True: frozenset(i.check.name for i in required),
            False: frozenset(i.check.name for i in required if not i.hook_only),
        }
        self._stale_after = {}
        for instance in instances:
            name = instance.check.name
            self._stale_after[name] = max(self._stale_after.get(name, 0.0), instance.stale_after)

    def decide(self, occasion: Occasion, findings: Sequence[Finding], job: JobAttempt | None = None) -> Decision:
        """What is wanted on this occasion."""
        context = Context(
            occasion=occasion,
            now=datetime.now(timezone.utc),
            job=job,
            required=self._required[occasion in ("prolog", "epilog")],
            stale_after=self._stale_after,
            boot_age=time.clock_gettime(time.CLOCK_BOOTTIME),
            quiet=self.quiet or self.paused,
            silenced=self.silenced,
        )
        return decide(findings, self.policy, context)


def differs(new: Decision, told: Decision | None) -> bool:
    """Whether a decision says something that the one before did not."""
    return told is None or (new.wanted, new.verdict, new.codes) != (told.wanted, told.verdict, told.codes)
