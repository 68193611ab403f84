"""Waiting for a cluster forgives what passes, and says what was awaited when it does not come."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deploy.simcluster import waiting
from deploy.simcluster.lab_ground import LabError
from deploy.simcluster.waiting import CommandFailed


def after(failures: int, error: Exception) -> Callable[[], bool]:
    """A condition that first fails so many times."""
    left = iter([error] * failures)

    def holds() -> bool:
        if (failure := next(left, None)) is not None:
            raise failure
        return True

    return holds


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "STEP", 0.001)
    monkeypatch.delenv(waiting.PATIENCE)


def test_a_command_that_fails_meanwhile_only_means_not_yet() -> None:
    assert waiting.wait_for(after(3, CommandFailed("slurmctld is away")), 30, lambda: "never") < 30


def test_what_is_not_forgiven_is_raised_at_once() -> None:
    with pytest.raises(ValueError, match="wrong"):
        waiting.wait_for(after(1, ValueError("wrong")), 30, lambda: "never")


def test_the_end_says_what_was_awaited_even_where_looking_fails() -> None:
    def told() -> str:
        raise CommandFailed("scontrol ended with 1")

    with pytest.raises(LabError, match=r"node is not idle \(after 0.01 s\)"):
        waiting.wait_for(lambda: False, 0.01, lambda: "node is not idle")
    with pytest.raises(LabError, match=r"scontrol ended with 1 \(after 0.01 s\)"):
        waiting.wait_for(lambda: False, 0.01, told)


def test_a_busy_machine_is_waited_for_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(waiting.PATIENCE, "3")
    with pytest.raises(LabError, match=r"\(after 0.03 s\)"):
        waiting.wait_for(lambda: False, 0.01, lambda: "never")
