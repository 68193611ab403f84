"""A node's verdict follows from its findings alone: faulty, degraded, unknown or healthy."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from checks.judge.context import Context
from checks.judge.policy import Policy
from checks.wire import Finding, Verdict


def judged(findings: Sequence[Finding], policy: Policy) -> tuple[Finding, ...]:
    """The findings with status and blame as the policy sees their codes; ``self`` can never become a fault."""
    return tuple(_judged(f, policy) for f in findings)


def _judged(finding: Finding, policy: Policy) -> Finding:
    if finding.status in ("ok", "skipped") or finding.blame == "self":
        return finding
    rule = policy.codes.get(finding.code)
    if rule is None or (rule.status is None and rule.blame is None):
        return finding
    return msgspec.structs.replace(finding, status=rule.status or finding.status, blame=rule.blame or finding.blame)


def verdict(findings: Sequence[Finding], context: Context) -> Verdict:
    """``faulty`` if any fail blames the node, else ``degraded`` if any warn or other fail, else ``unknown`` if a
    required check is unanswered or stale, else ``healthy``."""
    if any(f.status == "fail" and f.blame == "node" for f in findings):
        return "faulty"
    if any(f.status in ("warn", "fail") for f in findings):
        return "degraded"
    if unanswered(findings, context):
        return "unknown"
    return "healthy"


def unanswered(findings: Sequence[Finding], context: Context) -> tuple[str, ...]:
    """Required checks without an answer: absent, unknown, or older than their limit."""
    missing = []
    for name in sorted(context.required):
        mine = [f for f in findings if f.check == name]
        if not mine or any(f.status == "unknown" for f in mine) or any(is_stale(f, context) for f in mine):
            missing.append(name)
    return tuple(missing)


def is_stale(finding: Finding, context: Context) -> bool:
    """Whether a finding is older than its check's limit; never where the clock or the limit is unset.

    A finding from the future (the clock was set back) is not trusted either.
    """
    limit = context.stale_after.get(finding.check)
    if limit is None or context.now is None or finding.observed_at is None:
        return False
    age = (context.now - finding.observed_at).total_seconds()
    return age > limit or age < -limit
