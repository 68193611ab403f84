"""The times of one hook lie inside each other: hook over answer over gate, refresh and permit."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from checks.wire import Limits
from daemon.config import AgentSettings

# The hook needs this long around our answer: to start, connect, print and exit.
HOOK_MARGIN = 1.0
WAY_BACK = 0.3
LEAST = 0.5


@dataclass(frozen=True, slots=True)
class Budget:
    """Seconds of one answer and when it began; every part ends before the whole does."""

    started: float
    answer: float
    gate: float
    refresh: float
    permit: float

    @property
    def left(self) -> float:
        """Seconds until the answer has to go out."""
        return max(0.0, self.started + self.answer - time.monotonic())

    @property
    def for_refresh(self) -> float:
        """What a refresh may take now."""
        return max(0.0, min(self.refresh, self.left - WAY_BACK))

    @property
    def for_permit(self) -> float:
        """What asking for a permit may take now; the refusal still has to reach the disk."""
        return max(0.0, min(self.permit, self.left - 2 * WAY_BACK))

    @property
    def for_gate(self) -> float:
        """What waiting at the job's gate may take now."""
        return max(0.0, min(self.gate, self.left - WAY_BACK))


def budget(settings: AgentSettings, limits: Limits | None, remaining: str | None) -> Budget:
    """The budget of a request that came just now.

    ``limits`` are what the running Slurm allows a hook as a whole, ``remaining`` what this hook says it has left.
    """
    whole = settings.answer_budget
    if limits is not None and limits.budget is not None:
        whole = min(whole, limits.budget - HOOK_MARGIN)
    if (left := _seconds(remaining)) is not None:
        whole = min(whole, left - WAY_BACK)
    whole = max(LEAST, whole)
    return Budget(
        started=time.monotonic(),
        answer=whole,
        gate=min(settings.gate_budget, whole),
        refresh=min(settings.refresh_budget, whole / 2),
        permit=min(settings.permit_budget, whole),
    )


def _seconds(text: str | None) -> float | None:
    try:
        value = float(text) if text is not None and len(text) < 32 else math.nan
    except ValueError:
        return None
    return value if 0 <= value <= 3600 else None
