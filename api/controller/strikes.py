"""A node that comes back green and fails again collects strikes, which fade; with too many a person decides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from api.controller.core import Core
from api.controller.drain_record import DrainRecord

IN_PROBATION = 2
HALF_LIVES = 6


@dataclass(frozen=True, slots=True)
class Strikes:
    """How much a new drain counts, and why only a person may end it (empty where its rule decides)."""

    weight: int
    held: str


def struck(core: Core, node: str, codes: Sequence[str]) -> Strikes:
    """Judge a new drain by the node's earlier ones that ended with clean verifications; reads the database.

    A drain that others ended is no strike: its fault never went away, and `belief` counts those.
    """
    settings, now = core.settings, core.clock()
    since = now - timedelta(seconds=HALF_LIVES * settings.strike_half_life)
    past = [r for r in core.records.ended_since(core.cluster, node, since) if r.automatic and r.state == "resumed"]
    weight = IN_PROBATION if any(r.probation_until and r.probation_until > now for r in past) else 1
    alike = [r for r in past if set(r.codes) & set(codes)]
    for what, records, limit in (
        (codes[0], alike, settings.strike_limit),
        ("any fault", past, settings.strike_limit_node),
    ):
        score = weight + faded(records, now, settings.strike_half_life)
        if records and score >= limit:
            text = f"flapping: drained {len(records) + 1} times for {what}, {score:.1f} strikes, limit {limit:g}"
            return Strikes(weight, text)
    return Strikes(weight, "")


def faded(records: Iterable[DrainRecord], now: datetime, half_life: float) -> float:
    """The sum of the records' weights, each halved every ``half_life`` seconds."""
    ages = ((r.weight, max(0.0, (now - r.created_at).total_seconds())) for r in records)
    return float(sum(weight * 0.5 ** (age / half_life) for weight, age in ages))
