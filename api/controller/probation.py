"""A node that came back by itself is watched closer for a time before it counts as in service like any other."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta

from api.controller.core import Core
from api.controller.drain_record import DrainRecord
from api.controller.orders import new_order


def probation_of(core: Core, record: DrainRecord, *, verified: bool) -> datetime | None:
    """Until when a node given back now is on probation; None where a person gave it back unverified."""
    if not verified or not record.automatic or core.settings.probation <= 0:
        return None
    return core.clock() + timedelta(seconds=core.settings.probation)


class Probation:
    """Orders a look at every idle node on probation each ``probation_look`` seconds, and ends probations."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._looked: dict[str, float] = {}
        self.nodes: frozenset[str] = frozenset()

    async def watch(self) -> None:
        """One round."""
        core = self._core
        found = await asyncio.to_thread(core.records.on_probation, core.cluster)
        now = core.clock()
        for record in found:
            if record.probation_until is not None and record.probation_until <= now:
                await asyncio.to_thread(_over, core, record)
        self.nodes = frozenset(r.node for r in found if r.probation_until is not None and r.probation_until > now)
        self._looked = {n: at for n, at in self._looked.items() if n in self.nodes}
        for node in sorted(self.nodes):
            if self._due(node):
                self._looked[node] = time.monotonic()
                core.orders.give(core.cluster, node, new_order("verify"))

    def _due(self, node: str) -> bool:
        """Never beside a job, and not where hands are off; a node that is out again is verified for its drain."""
        core, state = self._core, self._core.view.states.get(node)
        if state is None or state.running_jobs or state.out_of_service or state.hands_off or core.paused(node):
            return False
        if not core.orders.live(core.cluster, node):
            # Orders would pile up where nobody fetches them.
            return False
        return time.monotonic() - self._looked.get(node, float("-inf")) >= core.settings.probation_look


def _over(core: Core, record: DrainRecord) -> None:
    core.records.end_probation(record)
    core.audit("probation ended", record.node, f"watched since {record.closed_at:%Y-%m-%d %H:%M} UTC")
