"""One decide() answers every occasion, and only a fresh fault of the node itself can turn a job away."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.judge.context import Context
from checks.judge.decide import REASON_LIMIT, decide
from checks.judge.policy import Pack, Policy, Rule, merge, read_pack
from checks.judge.verdict import unanswered
from checks.wire import Action, Blame, Finding, JobAttempt, Occasion, Status, Verdict

NOW = datetime(2026, 12, 1, 12, 0, tzinfo=timezone.utc)
GPU = "0000:5d:00.0"
RULES = """
version = "test"
[defaults."fail.node"]
prolog = "refuse"
interval = "drain"
confirm = 1
[codes.slow]
confirm = 3
[codes.remap]
prolog = "drain"
[codes.lost]
device_lost = true
[codes.small_only]
refuse_up_to_nodes = 4
[codes.tried]
shadow = true
[codes.leftover]
prolog = "wait"
[codes.forced]
prolog = "refuse"
interval = "drain"
[codes.mild]
status = "warn"
[codes.promoted]
status = "fail"
blame = "node"
"""
POLICY = merge([("test", read_pack(RULES, "test"))])


def finding(code: str = "bad", status: Status = "fail", blame: Blame | None = "node", **more: object) -> Finding:
    base = Finding(check="c", target=GPU, status=status, code=code, blame=blame, message="is bad", observed_at=NOW)
    return msgspec.structs.replace(base, **more)


def wants(found: list[Finding] | Finding, occasion: Occasion = "prolog", **context: object) -> Action:
    findings = [found] if isinstance(found, Finding) else found
    return decide(findings, POLICY, Context(occasion=occasion, now=NOW, **context)).wanted  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("occasion", "expected"),
    [
        ("prolog", "refuse"),
        ("epilog", "drain"),
        ("interval", "drain"),
        ("health", "drain"),
        ("manual", "drain"),
        ("burn-in", "drain"),
    ],
)
def test_a_fault_refuses_a_job_and_drains_an_idle_node(occasion: Occasion, expected: Action) -> None:
    assert wants(finding(), occasion) == expected


@pytest.mark.parametrize("status", [s for s in get_args(Status) if s != "fail"])
@pytest.mark.parametrize("blame", [None, *get_args(Blame)])
@pytest.mark.parametrize("occasion", get_args(Occasion))
def test_what_is_no_failure_is_admitted(status: Status, blame: Blame | None, occasion: Occasion) -> None:
    assert wants(finding(status=status, blame=blame), occasion) == "admit"


@pytest.mark.parametrize("blame", ["fabric", "shared", "config", "job", "self"])
def test_what_does_not_blame_the_node_never_drains(blame: Blame) -> None:
    """Rule 8 and E16: a user, a file server or a setting cannot take a node out."""
    assert {wants(finding(blame=blame), occasion) for occasion in get_args(Occasion)} == {"admit"}
    assert {wants(finding("forced", blame=blame), occasion) for occasion in get_args(Occasion)} == {"admit"}


def test_our_own_trouble_never_drains_whatever_the_policy_says() -> None:
    """Rule 1: a site cannot promote our own trouble to a fault."""
    found = finding("promoted", "unknown", "self")
    decision = decide([found], POLICY, Context(occasion="interval", now=NOW))
    assert (decision.wanted, decision.verdict) == ("admit", "healthy")


def test_a_stale_finding_decides_nothing() -> None:
    """E114: values carry their age."""
    old = finding(observed_at=NOW - timedelta(seconds=61))
    decision = decide([old], POLICY, Context("prolog", NOW, stale_after={"c": 60.0}, required=frozenset({"c"})))
    assert (decision.wanted, decision.verdict, decision.why) == ("admit", "unknown", "not answered: c")


def test_a_finding_of_the_future_is_not_trusted() -> None:
    """The clock was set back."""
    found = finding(observed_at=NOW + timedelta(hours=1))
    assert wants(found, stale_after={"c": 60.0}) == "admit"


def test_without_a_clock_or_a_limit_nothing_is_stale() -> None:
    """Rule 10: a rule that needs an unset field does not match."""
    old = finding(observed_at=NOW - timedelta(days=9))
    assert decide([old], POLICY, Context("prolog", None, stale_after={"c": 1.0})).wanted == "refuse"
    assert wants(old) == "refuse"


@pytest.mark.parametrize(("seen", "expected"), [(1, "admit"), (2, "admit"), (3, "drain")])
def test_an_idle_node_is_drained_after_enough_rounds(seen: int, expected: Action) -> None:
    assert wants(finding("slow", seen=seen), "interval") == expected


@pytest.mark.parametrize(("seen", "expected"), [(1, "admit"), (2, "admit"), (3, "refuse")])
def test_one_look_at_a_prolog_does_not_refuse_what_must_be_confirmed(seen: int, expected: Action) -> None:
    assert wants(finding("slow", seen=seen), "prolog") == expected


def test_a_fault_that_a_running_job_can_bear_is_drained_afterwards() -> None:
    """E24: a pending remap lets the job run and drains the node after it."""
    assert wants(finding("remap")) == "drain"


@pytest.mark.parametrize(
    ("code", "requeue", "expected"),
    [
        ("bad", False, "drain"),
        ("bad", True, "refuse"),
        ("bad", None, "refuse"),
        ("lost", False, "refuse"),
    ],
)
def test_a_job_that_would_be_cancelled_is_refused_only_for_a_lost_device(
    code: str, requeue: bool | None, expected: Action
) -> None:
    """DESIGN 2: a no-requeue job is admitted with a warning unless a device is lost."""
    assert wants(finding(code), requeue=requeue) == expected


@pytest.mark.parametrize(("nodes", "expected"), [(1, "refuse"), (4, "refuse"), (5, "drain"), (None, "refuse")])
def test_the_needed_severity_grows_with_the_job(nodes: int | None, expected: Action) -> None:
    assert wants(finding("small_only"), job=JobAttempt(job_id=1, nodes=nodes)) == expected


def test_a_rule_in_shadow_is_recorded_and_never_acts() -> None:
    decision = decide([finding("tried")], POLICY, Context("prolog", NOW))
    assert (decision.wanted, decision.shadow_codes, decision.verdict) == ("admit", ("tried",), "faulty")


def test_a_shadow_rule_hides_no_other() -> None:
    assert wants([finding("tried"), finding("bad")]) == "refuse"


def test_a_leftover_of_a_job_lets_the_next_one_wait() -> None:
    """E62: the user's process is waited for inside the budget, and never drains."""
    decision = decide([finding("leftover", blame="job")], POLICY, Context("prolog", NOW))
    assert (decision.wanted, decision.codes) == ("wait", ("leftover",))
    assert wants(finding("leftover", blame="job"), "interval") == "admit"


def test_hands_off_admits() -> None:
    decision = decide([finding()], POLICY, Context("interval", NOW, quiet="node is in maintenance"))
    assert (decision.wanted, decision.why) == ("admit", "node is in maintenance")


def test_a_site_may_soften_a_code() -> None:
    decision = decide([finding("mild")], POLICY, Context("prolog", NOW))
    assert (decision.wanted, decision.verdict) == ("admit", "degraded")


def test_the_reason_names_part_and_problem_and_how_many_more() -> None:
    """E64: reasons name the cause; the part stands before the node as a whole."""
    found = [finding("a_count", target="node"), finding("lost"), finding("zz", target="mlx5_0/1")]
    decision = decide(found, POLICY, Context("prolog", NOW))
    assert decision.reason == f"lost {GPU}: is bad (+2 more)"
    assert decision.codes == ("lost", "zz", "a_count")
    assert "node failed its health check" in decision.user_message


def test_one_problem_seen_by_two_checks_is_one_cause() -> None:
    """E102: two detectors, one verdict."""
    decision = decide([finding("lost"), finding("lost", check="d")], POLICY, Context("prolog", NOW))
    assert decision.reason == f"lost {GPU}: is bad"


def test_hostile_text_is_cleaned_and_bounded() -> None:
    """E99: no control character, no newline, no endless line."""
    text = 'rock\'n roll $(reboot) "x" \n\x1b[31m\u202e' + "y" * 4000
    reason = decide([finding(message=text)], POLICY, Context("prolog", NOW)).reason
    assert len(reason) <= REASON_LIMIT
    assert not any(ord(c) < 32 or c == "\u202e" for c in reason)


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ([], "healthy"),
        ([finding(status="ok", blame=None)], "healthy"),
        ([finding(status="skipped", blame="config")], "healthy"),
        ([finding(status="unknown", blame="self")], "healthy"),
        ([finding(status="warn")], "degraded"),
        ([finding(blame="shared")], "degraded"),
        ([finding(status="warn"), finding()], "faulty"),
    ],
)
def test_the_verdict_follows_from_the_findings(findings: list[Finding], expected: Verdict) -> None:
    assert decide(findings, POLICY, Context("interval", NOW)).verdict == expected


@pytest.mark.parametrize(
    ("findings", "missing"),
    [
        ([], ("c",)),
        ([finding(status="unknown", blame="node")], ("c",)),
        ([finding(status="skipped", blame="config")], ()),
        ([finding(status="ok", blame=None)], ()),
        ([finding(status="ok", blame=None, observed_at=NOW - timedelta(hours=1))], ("c",)),
    ],
)
def test_a_required_check_must_be_answered(findings: list[Finding], missing: tuple[str, ...]) -> None:
    context = Context("interval", NOW, required=frozenset({"c"}), stale_after={"c": 60.0})
    assert unanswered(findings, context) == missing
    assert decide(findings, POLICY, context).verdict == ("unknown" if missing else "healthy")


@pytest.mark.parametrize("occasion", get_args(Occasion))
def test_an_unknown_node_is_admitted(occasion: Occasion) -> None:
    """When in doubt: unknown, and the job starts."""
    decision = decide([], POLICY, Context(occasion, NOW, required=frozenset({"c"})))
    assert (decision.wanted, decision.verdict) == ("admit", "unknown")


CODES = ["bad", "slow", "remap", "lost", "small_only", "tried", "leftover", "mild", "promoted", "forced"]
findings_ = st.builds(
    finding,
    code=st.sampled_from(CODES) | st.text(max_size=20),
    status=st.sampled_from(get_args(Status)),
    blame=st.none() | st.sampled_from(get_args(Blame)),
    target=st.text(max_size=40),
    message=st.text(max_size=300),
    observed_at=st.none() | st.integers(-200, 200).map(lambda s: NOW + timedelta(seconds=s)),
    seen=st.integers(1, 5),
)
contexts = st.builds(
    Context,
    occasion=st.sampled_from(get_args(Occasion)),
    now=st.none() | st.just(NOW),
    job=st.none() | st.builds(JobAttempt, job_id=st.just(1), nodes=st.none() | st.integers(1, 64)),
    requeue=st.none() | st.booleans(),
    required=st.just(frozenset({"c"})),
    stale_after=st.just({}) | st.just({"c": 60.0}),
    quiet=st.just("") | st.just("pause"),
)


def may_act(found: Finding, policy: Policy, context: Context) -> bool:
    """Said in other words than decide() says it: a fail that blames the node, fresh, not in shadow."""
    rule = policy.codes.get(found.code, Rule())
    status, blame = found.status, found.blame
    if blame != "self" and status not in ("ok", "skipped"):
        status, blame = rule.status or status, rule.blame or blame
    if (status, blame) != ("fail", "node") or rule.shadow:
        return False
    limit = context.stale_after.get(found.check)
    if context.now is None or limit is None or found.observed_at is None:
        return True
    return abs((context.now - found.observed_at).total_seconds()) <= limit


@given(st.lists(findings_, max_size=6), contexts)
def test_nothing_but_a_fresh_fault_of_the_node_can_drain(findings: list[Finding], context: Context) -> None:
    decision = decide(findings, POLICY, context)
    if decision.wanted in ("refuse", "drain"):
        assert not context.quiet
        assert any(may_act(f, POLICY, context) for f in findings)
        assert set(decision.codes) <= {f.code for f in findings}
    assert len(decision.reason) <= REASON_LIMIT


@given(st.lists(findings_, max_size=6), contexts)
def test_an_empty_policy_never_acts(findings: list[Finding], context: Context) -> None:
    assert decide(findings, merge([("empty", Pack(version="0"))]), context).wanted == "admit"
