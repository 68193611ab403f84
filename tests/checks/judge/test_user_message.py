"""A user whose job was turned away hears whose fault it is and what becomes of the job."""

from __future__ import annotations

import pytest

from checks.judge.context import Context
from checks.judge.decide import decide
from tests.checks.judge.test_decide import NOW, POLICY, finding


@pytest.mark.parametrize(
    ("requeue", "fate"),
    [(True, "requeues the job and starts it"), (False, "cancels it: submit it again"), (None, "where that is allowed")],
)
def test_the_user_hears_whose_fault_it_is_and_what_becomes_of_the_job(requeue: bool | None, fate: str) -> None:
    """E70: the node, not the job; a job that is not requeued is not promised to be."""
    lost = finding("lost")
    decision = decide([lost], POLICY, Context("prolog", NOW, requeue=requeue))
    assert decision.wanted == "refuse"
    assert "no fault of the job" in decision.user_message and fate in decision.user_message
