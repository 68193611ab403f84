"""Whether a report proves that a drained node is well again: whole, present, of this boot, and clean to both sides."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from api.store.views import ReportView
from checks.judge.context import Context
from checks.judge.decide import decide
from checks.judge.policy import Policy
from checks.wire import Decision, Finding

# An answer that was under way when the order came counts for the round; both times are of the node's own clock.
UNDER_WAY = timedelta(seconds=30)


def not_clean(report: ReportView, checks: Sequence[str], policy: Policy) -> str:
    """Why this report is no clean round, empty when it is one; ``checks``: those that took the node out.

    No finding is left out for its age: a fault that a wrong clock dates back is a fault.
    """
    if not report.findings:
        return "report is empty"
    if report.decision is None:
        return "report holds no decision"
    here = decide(report.findings, policy, Context(occasion="interval"))
    # Only the agent knows which checks are required on its node, and whether its hands are off.
    for who, decision in (("agent", report.decision), ("server", here)):
        if why := _faulty(decision):
            return f"{who}: {why}"
    return _unproved(report, checks)


def _faulty(decision: Decision) -> str:
    if decision.wanted != "admit" or decision.verdict not in ("healthy", "degraded"):
        return decision.reason or decision.why or f"verdict {decision.verdict}"
    return decision.why


def _unproved(report: ReportView, checks: Sequence[str]) -> str:
    """What took the node out must have been looked at again, in this round, and have been answered."""
    for check in checks:
        mine = [f for f in report.findings if f.check == check]
        if not mine:
            return f"check {check} is not in the report"
        if bad := next((f for f in mine if f.status not in ("ok", "warn")), None):
            return f"check {check} is {bad.status}: {bad.message or bad.code}"
        if not all(_of_round(f, report.started_at) for f in mine):
            return f"check {check} was not asked again in this round"
    return ""


def _of_round(finding: Finding, started: datetime) -> bool:
    return finding.observed_at is not None and finding.observed_at >= started - UNDER_WAY
