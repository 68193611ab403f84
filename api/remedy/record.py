"""One remedy as it is remembered, and the states that it goes through."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

RemedyState = Literal[
    "planned", "running", "done", "failed", "busy", "refused", "expired", "hung", "unknown", "dry_run", "cancelled"
]
OPEN: frozenset[RemedyState] = frozenset({"planned", "running"})
# Where a remedy may go from each state, as docs/remediation.md tells it; where nothing is left, it is over.
MOVES: dict[RemedyState, frozenset[RemedyState]] = {
    "planned": frozenset({"running", "refused", "expired", "cancelled", "busy"}),
    "running": frozenset({"done", "failed", "busy", "refused", "expired", "hung", "unknown"}),
}
# What has, or may have, been done to the node: not done again for the same code within the site's time.
TRIED: frozenset[RemedyState] = frozenset({"done", "failed", "hung", "unknown"})


@dataclass(frozen=True, slots=True)
class RemedyRecord:
    """One remedy; times are UTC. ``token``: the drain that it belongs to; ``boot_id``: the boot when it began."""

    id: int
    cluster: str
    node: str
    action: str
    codes: tuple[str, ...]
    gpus: tuple[str, ...]
    actor: str
    automatic: bool
    token: str
    state: RemedyState
    why: str
    order_id: str
    boot_id: str
    open: bool
    created_at: datetime
    started_at: datetime | None
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class NewRemedy:
    """What is known of a remedy before anything is done."""

    node: str
    action: str
    codes: tuple[str, ...]
    gpus: tuple[str, ...]
    actor: str
    automatic: bool
    token: str
    why: str = ""
    state: RemedyState = "planned"
