"""What brings a node back, in one sentence, and how it stands with its earlier drains."""

from __future__ import annotations

from datetime import timedelta

from api.controller.core import Core
from api.controller.drain_record import DrainRecord
from api.controller.shown import way_out
from api.controller.strikes import HALF_LIVES, faded
from api.service_port import ServiceState, StrikeView


def way_back(core: Core, node: str, state: ServiceState, record: DrainRecord | None) -> str:
    """What has to happen before this node is in service like any other; empty when it is."""
    held = core.view.states.get(node)
    if state == "retired":
        return "slurm must know the node again"
    tried = record is not None and record.state == "testing"
    if held is not None and (tried or held.out_of_service or held.hands_off or core.paused(node)):
        return way_out(core, held, record if record is not None and record.open else None)
    if state == "verifying":
        return "the answer of its agent to a whole look"
    if state == "suspect":
        return "the fault goes away, or it is confirmed and allowed and the node is drained"
    if state == "probation" and record is not None and record.probation_until is not None:
        return f"in service; watched closer until {record.probation_until:%Y-%m-%d %H:%M} UTC"
    return ""


def strikes_of(core: Core, node: str) -> tuple[StrikeView, ...]:
    """The strikes that the node's next drain would be added to, by code and in all; reads the database."""
    settings, now = core.settings, core.clock()
    since = now - timedelta(seconds=HALF_LIVES * settings.strike_half_life)
    ended = core.records.ended_since(core.cluster, node, since)
    past = [r for r in ended if r.automatic and r.state == "resumed"]
    if not past:
        return ()
    codes = sorted({code for r in past for code in r.codes})
    kinds = [(code, [r for r in past if code in r.codes], settings.strike_limit) for code in codes]
    kinds.append(("any fault", past, settings.strike_limit_node))
    return tuple(
        StrikeView(
            what=what,
            drains=len(records),
            score=round(faded(records, now, settings.strike_half_life), 2),
            limit=limit,
        )
        for what, records, limit in kinds
    )
