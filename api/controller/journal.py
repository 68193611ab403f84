"""When a node goes out of service in Slurm, comes back, or is worked on by others, that is written down once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from api.controller.core import Core
from api.store.database import Database
from api.store.past import DETAIL_LIMIT, VALUE_LIMIT, event, last_events
from slurm.reason import one_line
from slurm.state import NodeState

KIND = "slurm"
OUT, EDITED = "out", "reason"
IN_SERVICE = ("in", "")


class Journal:
    """What was written down last of each node; read anew when the server starts."""

    def __init__(self, core: Core, database: Database) -> None:
        self._core, self._db = core, database
        self._known: dict[str, tuple[str, str]] | None = None

    async def watch(self) -> None:
        """Write down what the last bulk read shows for the first time."""
        await asyncio.to_thread(self._watch, self._core.view.states)

    def _watch(self, states: Mapping[str, NodeState]) -> None:
        if self._known is None:
            with self._db.read() as connection:
                found = last_events(connection, self._core.cluster, KIND)
            self._known = {n: (OUT if value == EDITED else value, text) for n, (value, text) in found.items()}
        # A node that was never out of service has no line: the first bulk read of a cluster writes nothing.
        moved = {n: now for n, s in states.items() if (now := told(s)) != self._known.get(n, IN_SERVICE)}
        if not moved:
            return
        at = self._core.view.read_at or self._core.clock()
        with self._db.begin() as connection:
            for node, (value, detail) in moved.items():
                if value == OUT == self._known.get(node, IN_SERVICE)[0]:
                    value = EDITED
                event(connection, (self._core.cluster, node), KIND, value, detail, at)
        self._known |= moved


def told(state: NodeState) -> tuple[str, str]:
    """What of a node's state outlives its jobs: out of service and why, hands off, or in service."""
    if state.out_of_service:
        reason = state.active_reason
        who = f" [{reason.user}]" if reason and reason.user else ""
        text = f"{reason.text if reason else 'no reason'}{who}"
        return OUT, one_line(text, DETAIL_LIMIT)
    return (one_line(state.hands_off, VALUE_LIMIT), "") if state.hands_off else IN_SERVICE
