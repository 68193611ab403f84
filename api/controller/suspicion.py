"""A fault that blames the node and from which nothing has followed yet is a suspicion, and has a reason to be one."""

from __future__ import annotations

from collections.abc import Sequence

from api.controller.automatic import judge_now
from api.controller.core import Core
from api.controller.words import without_accepted
from checks.judge.verdict import judged
from checks.wire import Finding

# What the controller says aloud when it does not drain a node that the policy wants drained.
_SAID = ("guard_closed", "resumed_while_faulty", "contested", "drain_failed")


def suspicion(core: Core, node: str, findings: Sequence[Finding]) -> str:
    """The fault and why nothing follows from it; empty without one. What people silenced or accepted is none."""
    decision = judge_now(core, findings, core.clock(), node)
    if decision.wanted == "drain":
        said = next((text for code in _SAID if (text := core.notices.text(node, code))), "")
        off = "" if core.settings.automation else "; automation is off"
        return said or f"{decision.reason}{off}"
    return _unconfirmed(core, node, findings)


def _unconfirmed(core: Core, node: str, findings: Sequence[Finding]) -> str:
    """A fault that the policy wants to see more often before it counts."""
    silenced, now = core.silenced(node), core.clock()
    for finding in judged(without_accepted(core.words, node, findings, now), core.policy):
        rule = core.policy.rule(finding.code, finding.status, finding.blame)
        if finding.status != "fail" or finding.blame != "node" or rule.shadow or silenced & {finding.check, "*"}:
            continue
        fresh = finding.observed_at is not None and (now - finding.observed_at).total_seconds() <= core.settings.fresh
        wants = (rule.interval or "admit") in ("drain", "refuse")
        if fresh and wants and finding.seen < (rule.confirm or 1):
            return f"{finding.code} {finding.target}: {finding.message}; seen {finding.seen} of {rule.confirm} times"
    return ""
