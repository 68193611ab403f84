"""A node where nothing at all can be answered is unknown, whoever asks, and admits its jobs."""

from __future__ import annotations

import pytest

from checks.catalog import load
from checks.judge.context import Context
from checks.judge.decide import decide
from checks.judge.policy import shipped
from checks.wire import Finding, Occasion


@pytest.mark.parametrize("occasion", ["prolog", "epilog", "interval", "manual", "health", "burn-in"])
def test_everything_unknown_at_once_is_unknown_and_admitted(occasion: Occasion) -> None:
    """E126: exit 255 and no JSON from every tool is our trouble; nothing is derived from an exit code alone."""
    names = sorted(load())
    found = [
        Finding(check=n, target="node", status="unknown", code="check_error", blame="self", message="exit 255")
        for n in names
    ]
    decision = decide(found, shipped(), Context(occasion, required=frozenset(names)))
    assert (decision.verdict, decision.wanted, decision.codes) == ("unknown", "admit", ())
    assert decision.why.startswith("not answered: ")
