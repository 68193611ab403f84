"""The latest findings of every instance, each stamped with how long and in how many rounds it has been so."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec

from checks.declare import Code
from checks.host import Host
from checks.runner import Outcome
from checks.wire import Finding, Scalar
from daemon.agent.codes import CHECK
from daemon.plan import Instance

Key = tuple[str, str, str]
# A second look within this part of the interval is the same round: prologs in a row do not confirm a fault.
SAME_ROUND = 0.5
SETTLE = 300.0
"""Seconds after boot in which links train and drivers, mounts and services come up: a look then confirms nothing."""


@dataclass(slots=True)
class _Round:
    """What one instance last gave; ``at`` on the monotonic clock, ``counted`` when ``seen`` last rose.

    ``trouble`` is why a later look gave nothing: it stands beside the last answer, and never in its place. ``took`` is
    how many seconds the last look needed.
    """

    findings: tuple[Finding, ...]
    at: float
    counted: float
    trouble: tuple[Finding, ...] = ()
    trouble_at: float = 0.0
    took: float = 0.0


@dataclass(slots=True)
class Findings:
    """Ages come from the monotonic clock, so a wall clock that jumps makes nothing stale and nothing fresh.

    ``settled_at``: when the node has come up, by that clock; before it no look confirms what another has seen.
    """

    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
    settled_at: float = float("-inf")
    _rounds: dict[str, _Round] = field(default_factory=dict)
    _own: dict[Key, Finding] = field(default_factory=dict)

    def take(self, instance: Instance, outcome: Outcome) -> bool:
        """Keep one round; says whether a status, a code or a target changed.

        A look that failed for our own reasons takes back nothing that is not stale yet: a busy lane neither heals
        a fault nor starts its count anew.
        """
        now, before = self.clock(), self._rounds.get(instance.name)
        if before is not None and _stands(before, instance, now) and _ours(outcome.findings):
            before.took = outcome.seconds
            return _add_trouble(before, outcome.findings, now)
        soon = before is not None and now - before.counted < SAME_ROUND * instance.interval
        again = before is not None and (soon or now < self.settled_at)
        known = {f.key: f for f in before.findings} if before else {}
        stamped = tuple(_stamped(f, known.get(f.key), 0 if again else 1) for f in outcome.findings)
        counted = before.counted if before and again else now
        self._rounds[instance.name] = _Round(stamped, now, counted, took=outcome.seconds)
        return before is None or _marks((*before.findings, *before.trouble)) != _marks(stamped)

    def current(self, checks: Iterable[str] | None = None) -> tuple[Finding, ...]:
        """All present findings, with times as the clock stands now; ``checks`` limits them to those checks."""
        now, wall = self.clock(), self.wall()
        wanted = None if checks is None else set(checks)
        found: list[Finding] = []
        for round_ in self._rounds.values():
            for findings, at in ((round_.findings, round_.at), (round_.trouble, round_.trouble_at)):
                seen_at = wall - timedelta(seconds=now - at)
                found += [_at(f, seen_at) for f in findings if wanted is None or f.check in wanted]
        if wanted is None or CHECK in wanted:
            found += [msgspec.structs.replace(f, observed_at=wall) for f in self._own.values()]
        return tuple(found)

    def age(self, instance: Instance) -> float | None:
        """Seconds since the instance last answered, None when it never did."""
        round_ = self._rounds.get(instance.name)
        return None if round_ is None else self.clock() - round_.at

    def stale(self, instances: Sequence[Instance]) -> list[Instance]:
        """Those whose answer is missing, too old, or was no answer."""
        return [i for i in instances if self._is_stale(i)]

    def older(self, instances: Sequence[Instance], seconds: float) -> list[Instance]:
        """Those whose answer is missing or older than ``seconds``."""
        return [i for i in instances if (age := self.age(i)) is None or age > seconds]

    def quick(self, instances: Sequence[Instance], seconds: float) -> list[Instance]:
        """As many of these, the quickest first, as took no more than ``seconds`` in each lane when last asked.

        What did not apply to this node a moment ago is none of them.
        """
        spent: dict[str, float] = {}
        chosen = []
        asked = [(self._took(i), i) for i in instances if not self._skipped(i)]
        for took, instance in sorted(asked, key=lambda one: one[0]):
            spent[instance.lane] = spent.get(instance.lane, 0.0) + took
            if spent[instance.lane] <= seconds:
                chosen.append(instance)
        return chosen

    def _skipped(self, instance: Instance) -> bool:
        round_ = self._rounds.get(instance.name)
        return round_ is not None and all(f.status == "skipped" for f in round_.findings)

    def _took(self, instance: Instance) -> float:
        round_ = self._rounds.get(instance.name)
        return 0.0 if round_ is None else round_.took

    def _is_stale(self, instance: Instance) -> bool:
        age = self.age(instance)
        return age is None or age > instance.stale_after

    def keep_only(self, instances: Sequence[Instance]) -> None:
        """Forget what is no longer asked."""
        names = {i.name for i in instances}
        self._rounds = {name: round_ for name, round_ in self._rounds.items() if name in names}

    def note(self, code: Code, target: str = "node", **evidence: Scalar) -> bool:
        """Say something about the agent itself; says whether that is new."""
        finding = msgspec.structs.replace(code(target, **evidence), check=CHECK, observed_at=self.wall())
        before = self._own.get(finding.key)
        self._own[finding.key] = _stamped(finding, before, 1)
        return before is None

    def settled(self, code: Code) -> bool:
        """What was said with this code holds no more; says whether it had been said."""
        gone = [key for key in self._own if key[2] == code.name]
        for key in gone:
            del self._own[key]
        return bool(gone)


def settled_at(root: str) -> float:
    """When, by the monotonic clock, the node below ``root`` has come up; at once where it does not tell its uptime."""
    uptime = Host(root=Path(root)).uptime()
    return float("-inf") if uptime is None or uptime >= SETTLE else time.monotonic() + SETTLE - uptime


def _stamped(finding: Finding, before: Finding | None, rise: int) -> Finding:
    if before is None:
        return msgspec.structs.replace(finding, seen=1, since=finding.observed_at)
    return msgspec.structs.replace(finding, seen=before.seen + rise, since=before.since)


def quiet(findings: Sequence[Finding]) -> bool:
    """Whether nothing is said that a decision could follow from."""
    return all(f.status in ("ok", "skipped") for f in findings)


def _ours(findings: Sequence[Finding]) -> bool:
    """Whether this is no answer at all but our own trouble."""
    return bool(findings) and all(f.status == "unknown" and f.blame == "self" for f in findings)


def _stands(round_: _Round, instance: Instance, now: float) -> bool:
    """Whether it is an answer that is not stale yet."""
    return now - round_.at <= instance.stale_after and not _ours(round_.findings)


def _add_trouble(round_: _Round, trouble: Sequence[Finding], now: float) -> bool:
    known = {f.key: f for f in round_.trouble}
    before = _marks(round_.trouble)
    round_.trouble = tuple(_stamped(f, known.get(f.key), 1) for f in trouble)
    round_.trouble_at = now
    return before != _marks(round_.trouble)


def _at(finding: Finding, when: datetime) -> Finding:
    """The finding with its time as far back as the monotonic clock says, where the two differ."""
    if finding.observed_at is not None and abs((finding.observed_at - when).total_seconds()) < 2.0:
        return finding
    return msgspec.structs.replace(finding, observed_at=when)


def _marks(findings: Sequence[Finding]) -> set[tuple[str, str, str, str]]:
    return {(*f.key, f.status) for f in findings}
