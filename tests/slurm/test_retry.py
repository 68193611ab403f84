"""A busy controller is asked again, with growing pauses, until the deadline and not longer."""

from __future__ import annotations

import pytest

from slurm import errors, retry


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def test_a_busy_controller_is_asked_again_until_it_answers() -> None:
    """E122: back-off text is understood as busy, and the pauses grow."""
    clock, refusals = _Clock(), [errors.Busy("back off"), errors.Unreachable("away"), errors.Busy("back off")]

    def call() -> str:
        if refusals:
            raise refusals.pop()
        return "answer"

    assert retry.until(10, call, wait=clock.wait, clock=lambda: clock.now, jitter=lambda: 0.0) == "answer"
    assert clock.waits == pytest.approx([0.1, 0.2, 0.4])


def test_the_deadline_holds() -> None:
    clock = _Clock()

    def call() -> None:
        raise errors.Busy("back off")

    with pytest.raises(errors.Busy):
        retry.until(3, call, wait=clock.wait, clock=lambda: clock.now)
    assert clock.now < 3
    assert all(wait <= retry.LONGEST_WAIT for wait in clock.waits)


@pytest.mark.parametrize("error", [errors.PermissionDenied("x"), errors.Timeout("x", 1), errors.ClockSkew("x")])
def test_other_errors_are_raised_at_once(error: errors.SlurmError) -> None:
    calls: list[int] = []

    def call() -> None:
        calls.append(1)
        raise error

    with pytest.raises(type(error)):
        retry.until(10, call)
    assert calls == [1]
