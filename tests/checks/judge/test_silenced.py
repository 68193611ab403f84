"""A silenced check's findings count for the verdict, lead to nothing, and that is said."""

from __future__ import annotations

from typing import get_args

import pytest

from checks.judge.context import Context
from checks.judge.decide import decide
from checks.judge.policy import merge, read_pack
from checks.wire import Finding, Occasion

POLICY = merge([("t", read_pack('version="t"\n[defaults."fail.node"]\nprolog="refuse"\ninterval="drain"\n', "t"))])
LOST = Finding(check="gpu", target="GPU 3", status="fail", code="gpu_lost", blame="node")
DOWN = Finding(check="ib", target="mlx5_0/1", status="fail", code="ib_down", blame="node")


@pytest.mark.parametrize("occasion", get_args(Occasion))
@pytest.mark.parametrize("silenced", [{"gpu", "ib"}, {"*"}, {"gpu", "*"}])
def test_nothing_follows_from_what_is_silenced(occasion: Occasion, silenced: set[str]) -> None:
    decision = decide([LOST, DOWN], POLICY, Context(occasion=occasion, silenced=frozenset(silenced)))
    assert (decision.wanted, decision.verdict, decision.codes) == ("admit", "faulty", ())
    assert decision.why == "silenced: gpu_lost, ib_down"


def test_another_checks_fault_still_counts() -> None:
    decision = decide([LOST, DOWN], POLICY, Context(occasion="prolog", silenced=frozenset({"gpu", "other"})))
    assert (decision.wanted, decision.codes) == ("refuse", ("ib_down",))


def test_unset_it_silences_nothing() -> None:
    assert decide([LOST], POLICY, Context(occasion="prolog")).why == ""
