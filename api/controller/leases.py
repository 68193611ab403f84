"""Leases are permits handed out in advance, never more than the guard has room for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta

from api.controller.core import Core
from api.controller.fleet import fleet
from api.controller.records import NewPermit
from checks.judge.guard import Tally, headroom
from checks.wire import Lease

KEEP_DAYS = 30.0
SWEEP_SECONDS = 3600.0


class Leases:
    """The leases that are out, by node; the database holds them over a restart, and then nobody is offered them."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._out: dict[str, Lease] = {}
        self._swept = float("-inf")

    def of(self, node: str) -> tuple[Lease, ...]:
        """The node's lease, if it holds one that is still good."""
        lease = self._out.get(node)
        if self._left_alone(node):
            return ()
        return (lease,) if lease is not None and lease.expires_at > self._core.clock() else ()

    def _left_alone(self, node: str) -> bool:
        """Whether people want faults there to lead to nothing; an agent with a lease would refuse by itself."""
        core = self._core
        return bool(core.silenced(node) or core.risk(node) or core.words.contested(node, core.clock()))

    def drop(self, node: str) -> None:
        """The node's lease is spent."""
        self._out.pop(node, None)

    async def hand_out(self, live: Sequence[str]) -> None:
        """Give leases to live nodes in service, never more than the allowed part of the guard's head-room."""
        core, now = self._core, self._core.clock()
        self._out = {n: le for n, le in self._out.items() if le.expires_at > now}
        if time.monotonic() - self._swept > SWEEP_SECONDS:
            self._swept = time.monotonic()
            await asyncio.to_thread(core.records.forget_permits, now - timedelta(days=KEEP_DAYS))
        codes = tuple(sorted(c for c, r in core.policy.codes.items() if r.lease and not r.shadow))
        if not core.settings.automation or not codes or not live:
            return
        async with core.lock:
            for node in await asyncio.to_thread(self._next, live):
                expires = now + timedelta(seconds=core.settings.lease_seconds)
                new = NewPermit(
                    cluster=core.cluster,
                    node=node,
                    kind="lease",
                    codes=codes,
                    granted=True,
                    why="leased",
                    expires_at=expires,
                )
                permit = await asyncio.to_thread(core.records.add_permit, new, now)
                self._out[node] = Lease(permit=permit, codes=codes, expires_at=expires)

    def _next(self, live: Sequence[str]) -> list[str]:
        """The nodes that get one now."""
        core = self._core
        view = fleet(core)
        promised = len(view.promised)
        room = int((headroom(view, core.guard) + promised) * core.settings.lease_share) - promised
        serving = (
            n
            for n in live
            if n in view.nodes and view.nodes[n].in_service and not core.paused(n) and not self._left_alone(n)
        )
        tally, found = Tally(view, core.guard), list[str]()
        for node in serving:
            if len(found) >= room:
                break
            if node not in self._out and node not in view.promised and tally.authorize(node, "lease").allowed:
                tally.promise(node)
                found.append(node)
        return found
