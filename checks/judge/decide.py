"""One decide() answers for prolog, epilog, interval, health, manual, dashboard and back-test alike."""

from __future__ import annotations

from collections.abc import Sequence

from checks.judge.context import Context
from checks.judge.policy import Policy, Rule
from checks.judge.verdict import is_stale, judged, unanswered, verdict
from checks.wire import Action, Decision, Finding, clean

_WEIGHT: dict[Action, int] = {"admit": 0, "wait": 1, "drain": 2, "refuse": 3}
_NOTHING: Action = "admit"
REASON_LIMIT = 160


def decide(findings: Sequence[Finding], policy: Policy, context: Context) -> Decision:
    """Judge ``findings`` and say what is wanted; nothing here reads, writes or asks the time.

    Only a fresh ``fail`` that blames the node can want a refusal or a drain; any other may at most let a job wait.
    """
    seen = judged(findings, policy)
    fresh = [f for f in seen if not is_stale(f, context)]
    acting = [(f, policy.rule(f.code, f.status, f.blame)) for f in fresh if f.status == "fail"]
    shadow = tuple(dict.fromkeys(f.code for f, r in acting if r.shadow))
    heard = [(f, r) for f, r in acting if not context.silenced & {f.check, "*"}]
    wanted = [(f, _action(f, r, context)) for f, r in heard if not r.shadow]
    tried = [_action(f, r, context) for f, r in heard if r.shadow]
    would = next(iter(sorted(tried, key=_WEIGHT.__getitem__, reverse=True)), None)
    action: Action = max((a for _, a in wanted), key=_WEIGHT.__getitem__, default=_NOTHING)
    # A part says more than the node as a whole: "gpu_lost 0000:5d:00.0" stands before "gpu_count_low node".
    one_each = {(f.target == "node", f.code, f.target): f for f, a in reversed(wanted) if a == action}
    causes = [one_each[key] for key in sorted(one_each)] if action != "admit" else []
    return Decision(
        verdict=verdict(fresh, context),
        wanted=action,
        codes=tuple(dict.fromkeys(f.code for f in causes)),
        reason=operator_reason(causes),
        user_message=_for_user(action, context),
        why=context.quiet or _why(action, fresh, context) or _silenced(acting, heard),
        policy_version=policy.version,
        shadow_codes=shadow,
        shadow_wanted=would,
    )


def _action(finding: Finding, rule: Rule, context: Context) -> Action:
    """What one failed finding wants on this occasion; one that blames no node may at most ask a job to wait."""
    if context.quiet:
        return "admit"
    if finding.blame != "node":
        return "wait" if context.occasion == "prolog" and rule.prolog == "wait" else "admit"
    if context.occasion == "prolog":
        return _at_prolog(finding, rule, context)
    action = rule.interval or "admit"
    if action == "refuse":
        action = "drain"
    return action if finding.seen >= (rule.confirm or 1) else "admit"


def _at_prolog(finding: Finding, rule: Rule, context: Context) -> Action:
    """Refusing is weighed against what it costs the job; where it costs too much, drain afterwards.

    A fault that must be seen more than once is not believed from one look at a prolog either: the job is admitted.
    """
    action = rule.prolog or "admit"
    if finding.seen < (rule.confirm or 1):
        return "admit"
    if action != "refuse":
        return action
    if context.requeue is False and not rule.device_lost:
        return "drain"
    nodes = context.job.nodes if context.job else None
    if rule.refuse_up_to_nodes is not None and nodes is not None and nodes > rule.refuse_up_to_nodes:
        return "drain"
    return "refuse"


def operator_reason(causes: Sequence[Finding]) -> str:
    """One line for the operator: code, part, value and limit of the first cause, and how many more there are."""
    if not causes:
        return ""
    first = causes[0]
    more = f" (+{len(causes) - 1} more)" if len(causes) > 1 else ""
    return clean(f"{first.code} {first.target}: {first.message}", REASON_LIMIT - len(more)) + more


def _for_user(action: Action, context: Context) -> str:
    """Whose fault it is, and what becomes of the job; what Slurm does is promised only where it is known."""
    if action != "refuse":
        return ""
    fate = {
        True: "Slurm requeues the job and starts it on other nodes",
        False: "it was submitted not to be requeued, so Slurm cancels it: submit it again",
        None: "Slurm requeues the job where that is allowed",
    }
    told = "this node failed its health check before your job started, which is no fault of the job"
    return f"{told}; {fate[context.requeue]}"


def _silenced(acting: Sequence[tuple[Finding, Rule]], heard: Sequence[tuple[Finding, Rule]]) -> str:
    """The faults that nothing follows from because a person silenced their checks: said, never hidden."""
    codes = dict.fromkeys(f.code for f, r in acting if (f, r) not in heard)
    return clean(f"silenced: {', '.join(codes)}") if codes else ""


def _why(action: Action, findings: Sequence[Finding], context: Context) -> str:
    missing = unanswered(findings, context)
    if missing and action == "admit":
        return clean("not answered: " + ", ".join(missing))
    return ""
