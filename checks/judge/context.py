"""What decide() may know beside the findings; any field may be unset and then no rule that needs it matches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from checks.wire import JobAttempt, Occasion


@dataclass(frozen=True, slots=True)
class Context:
    """The occasion and its circumstances.

    ``stale_after``: seconds per check after which a finding is stale. ``requeue``: whether Slurm would requeue
    the job after a refusal. ``refuse_possible``: False where refusing is switched off for this occasion.
    ``quiet``: hands are off (STOP, pause, maintenance), the text says why. ``silenced``: checks whose findings a
    person wants to lead to nothing for a time, ``*`` for all of them.
    """

    occasion: Occasion
    now: datetime | None = None
    job: JobAttempt | None = None
    requeue: bool | None = None
    required: frozenset[str] = frozenset()
    stale_after: Mapping[str, float] = field(default_factory=dict)
    boot_age: float | None = None
    quiet: str = ""
    silenced: frozenset[str] = frozenset()
