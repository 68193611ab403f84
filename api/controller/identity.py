"""A drain remembers which parts stood in the node, so that a swap is seen, said, and verified from the start."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from api.controller.core import Core
from api.controller.drain_record import DrainRecord, Said

log = logging.getLogger(__name__)
PART_LIMIT = 400
REBOOTED = "rebooted since the drain"


def gpus_of(core: Core, node: str) -> tuple[str, ...]:
    """The GPUs that stand in the node: those its agent names now, and the recorded ones where some do not answer."""
    seen, known = core.records.gpus(core.cluster, node)
    return tuple(sorted(seen if len(seen) >= len(known) else {*seen, *known}))


def swapped(before: Sequence[str], now: Sequence[str]) -> str:
    """Which GPU was put in for which, by UUID; one that only does not answer is no swap."""
    gone, came = sorted(set(before) - set(now)), sorted(set(now) - set(before))
    if not before or not came:
        return ""
    pairs = [f"{a} -> {b}" for a, b in zip(gone, came, strict=False)]
    pairs += [f"{b} added" for b in came[len(gone) :]]
    return f"part swapped: {', '.join(pairs)}"[:PART_LIMIT]


def look(core: Core, record: DrainRecord) -> DrainRecord:
    """Hold the drained node against what stood in it and ran there; after a swap verification begins anew."""
    boot, swap = core.boot_of(record.node), swapped(record.gpus, core.records.gpus(core.cluster, record.node)[0])
    if others := core.records.other_parts(record):
        swap = f"{swap}, {others}" if swap else f"part swapped: {others}"
    swap = swap[:PART_LIMIT]
    rebooted = REBOOTED if boot and record.boot_id and boot != record.boot_id else ""
    part = "; ".join(said for said in (swap, rebooted) if said)
    if not part or part == record.part:
        return record
    if not swap or swap in record.part:
        # Rounds of two boots are told apart where they are counted.
        return core.records.change(record, core.clock(), part=part)
    log.warning("part swapped node=%s %s", record.node, part)
    if record.order_id is not None:
        core.orders.done([record.order_id])
    said = Said("part swapped", swap)
    return core.records.change(record, core.clock(), said=said, part=part, state="drained", order_id=None, rounds=0)
