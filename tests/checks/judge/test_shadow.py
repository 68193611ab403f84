"""A rule in shadow is judged like any other, what it would have done is recorded, and it never acts."""

from __future__ import annotations

import pytest

from checks.judge.context import Context
from checks.judge.decide import decide
from checks.judge.policy import merge, read_pack
from checks.wire import Action, Blame, Finding, Occasion, Status

POLICY = merge([("test", read_pack("""
version = "test"
[defaults."fail.node"]
prolog = "refuse"
interval = "drain"
[codes.tried]
shadow = true
[codes.slow]
shadow = true
confirm = 3
[codes.softer]
shadow = true
prolog = "drain"
""", "test"))])  # fmt: skip


def found(code: str, status: Status = "fail", blame: Blame = "node", seen: int = 1) -> Finding:
    return Finding(check="c", target="x", code=code, status=status, blame=blame, seen=seen)


@pytest.mark.parametrize(
    ("findings", "occasion", "expected"),
    [
        ([found("tried")], "prolog", "refuse"),
        ([found("tried")], "interval", "drain"),
        ([found("softer")], "prolog", "drain"),
        ([found("softer"), found("tried")], "prolog", "refuse"),
        ([found("tried", blame="shared")], "prolog", "admit"),
        ([found("slow")], "interval", "admit"),
        ([found("slow", seen=3)], "interval", "drain"),
        ([found("tried", status="warn")], "prolog", None),
        ([], "prolog", None),
    ],
)
def test_what_it_would_have_done_is_recorded(
    findings: list[Finding], occasion: Occasion, expected: Action | None
) -> None:
    decision = decide(findings, POLICY, Context(occasion))
    assert (decision.wanted, decision.shadow_wanted) == ("admit", expected)


def test_it_hides_no_other() -> None:
    decision = decide([found("bad"), found("softer")], POLICY, Context("prolog"))
    assert (decision.wanted, decision.codes) == ("refuse", ("bad",))
    assert (decision.shadow_codes, decision.shadow_wanted) == (("softer",), "drain")


@pytest.mark.parametrize(("quiet", "silenced"), [("maintenance", frozenset()), ("", frozenset({"c"})), ("", {"*"})])
def test_where_hands_are_off_it_would_have_done_nothing_either(quiet: str, silenced: frozenset[str]) -> None:
    context = Context("prolog", quiet=quiet, silenced=frozenset(silenced))
    assert decide([found("tried")], POLICY, context).shadow_wanted in ("admit", None)
