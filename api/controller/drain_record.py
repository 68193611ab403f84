"""One drain of ours as it is remembered, and the states that it goes through."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from checks.judge.policy import PolicyStep

DrainState = Literal[
    "intent",
    "draining",
    "drained",
    "verifying",
    "testing",
    "resuming",
    "resumed",
    "resumed_unverified",
    "taken_over",
    "resumed_outside",
    "failed",
    "retired",
]
OPEN: frozenset[DrainState] = frozenset({"intent", "draining", "drained", "verifying", "testing", "resuming"})
_ENDS: frozenset[DrainState] = frozenset({"taken_over", "resumed_outside", "retired"})
# Where a drain may go from each state, as docs/drains.md tells it; where nothing is left, it is over.
MOVES: dict[DrainState, frozenset[DrainState]] = {
    "intent": frozenset({"draining", "resuming", "failed", *_ENDS}),
    "draining": frozenset({"drained", "resuming", *_ENDS}),
    "drained": frozenset({"draining", "verifying", "resuming", *_ENDS}),
    "verifying": frozenset({"drained", "testing", "resuming", *_ENDS}),
    "testing": frozenset({"drained", "resuming", "resumed", *_ENDS}),
    "resuming": frozenset({"draining", "drained", "verifying", "resumed", "resumed_unverified", *_ENDS}),
}
# What Slurm may forget when its controller dies before it has saved: then the drain is in force again.
FORGETTABLE: frozenset[DrainState] = frozenset({"resumed", "resumed_unverified", "resumed_outside"})
NEVER_TAKEN = "slurm never took the drain"
REPLACED = "replaced by a newer drain of ours"


@dataclass(frozen=True, slots=True)
class DrainRecord:
    """One drain of ours, from intent to its end; times are UTC.

    ``checks``: those whose findings led to it. ``boot_seen``: the boot of the last clean round. ``gpus``: what stood in
    the node when it was drained; ``part``: what has been swapped since. ``held``: why a person is asked for although
    the rule would not. ``weight``: how much it counts among the node's strikes. ``clean_since``: the first of the clean
    rounds that are in a row. ``slurm_boot``: when the slurmctld was started that was last seen to hold what the record
    says. ``reason_before``: ``reason`` until it was renewed.
    """

    id: int
    cluster: str
    node: str
    owner: str
    actor: str
    codes: tuple[str, ...]
    checks: tuple[str, ...]
    reason: str
    token: str
    state: DrainState
    step: PolicyStep
    why: str
    boot_id: str
    boot_seen: str
    rounds: int
    order_id: str | None
    order_at: datetime | None
    permit: str | None
    job: str | None
    resume_by: str | None
    gpus: tuple[str, ...]
    part: str
    held: str
    weight: int
    probation_until: datetime | None
    clean_since: datetime | None
    slurm_boot: datetime | None
    reason_before: str
    open: bool
    created_at: datetime
    changed_at: datetime
    closed_at: datetime | None

    @property
    def verified(self) -> bool:
        """Whether clean rounds, not a person's word alone, lead to the resume that is under way."""
        return self.rounds > 0

    @property
    def automatic(self) -> bool:
        """Whether automation, not a person, took the node out."""
        return self.owner == "ours-automatic"


@dataclass(frozen=True, slots=True)
class NewDrain:
    """What is known of a drain before Slurm is asked."""

    cluster: str
    node: str
    owner: str
    actor: str
    codes: tuple[str, ...]
    reason: str
    token: str
    step: PolicyStep
    checks: tuple[str, ...] = ()
    boot_id: str = ""
    permit: str | None = None
    job: str | None = None
    gpus: tuple[str, ...] = ()
    held: str = ""
    weight: int = 1


@dataclass(frozen=True, slots=True)
class Said:
    """The line of the audit that belongs to a change, kept in the same transaction: there with it or not at all."""

    action: str
    detail: str
    actor: str = "controller"


def new_token() -> str:
    """Eight hexadecimal digits that tie a reason in Slurm to a record here; no two records may share them."""
    return secrets.token_hex(4)
