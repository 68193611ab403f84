"""Leases are permits handed out in advance, never more than the guard has room for; what is too much is called back.

A lease that is called back counts as promised until its node has said that it does not hold it, or until it expires:
an agent that is away may use it yet.
"""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import replace
from datetime import timedelta

from api.controller.core import Core
from api.controller.fleet import fleet
from api.controller.records import NewPermit
from checks.judge.guard import Fleet, Tally, headroom
from checks.wire import Lease

log = logging.getLogger(__name__)
KEEP_DAYS = 30.0
SWEEP_SECONDS = 3600.0
LIVE_SECONDS = 90.0
LIVE_LIMIT = 4096


class Leases:
    """The leases that are out, by node; the database holds them over a restart, and then nobody is offered them."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._out: dict[str, Lease] = {}
        self._ended: dict[str, float] = {}
        self._held: dict[str, tuple[float, frozenset[str]]] = {}
        self._live: dict[str, float] = {}
        self._swept = float("-inf")

    # On the loop

    def of(self, node: str) -> tuple[Lease, ...]:
        """The node's lease, if it holds one that is still good."""
        lease = self._out.get(node)
        if self._left_alone(node):
            return ()
        return (lease,) if lease is not None and lease.expires_at > self._core.clock() else ()

    def seen(self, node: str) -> None:
        """A node's agent is there."""
        self._live[node] = time.monotonic()

    def holds(self, node: str, permits: tuple[str, ...]) -> None:
        """What a node's agent could use when it asked just now; it asks once it has taken the former answer in."""
        self._held[node] = time.monotonic(), frozenset(permits)

    def drop(self, node: str) -> None:
        """The node's lease is spent."""
        self._out.pop(node, None)

    def _left_alone(self, node: str) -> bool:
        """Whether people want faults there to lead to nothing; an agent with a lease would refuse by itself."""
        core = self._core
        quiet = core.paused(node) or core.silenced(node) or core.risk(node)
        return bool(quiet or core.words.contested(node, core.clock()))

    # Once a round

    async def hand_out(self) -> None:
        """Call back what is too much, and give leases to live nodes in service where there is room."""
        core, now = self._core, self._core.clock()
        self._out = {n: le for n, le in self._out.items() if le.expires_at > now}
        if time.monotonic() - self._swept > SWEEP_SECONDS:
            self._swept = time.monotonic()
            await asyncio.to_thread(core.records.forget_permits, now - timedelta(days=KEEP_DAYS))
        codes = tuple(sorted(c for c, r in core.policy.codes.items() if r.lease and not r.shadow))
        async with core.lock:
            seen = await asyncio.to_thread(self._settled)
            for node in self._too_much(seen, codes):
                self._call_back(node)
            if not core.settings.automation or not codes:
                return
            for node in self._next(seen):
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

    def _settled(self) -> Fleet:
        """The fleet, once what nodes have dropped is not promised any more; reads and writes the database."""
        core, now = self._core, self._core.clock()
        rows = core.records.live_leases(core.cluster, now)
        self._ended = {p: at for p, at in self._ended.items() if p in {row["id"] for row in rows}}
        gone = [row["id"] for row in rows if self._dropped(row["node"], row["id"])]
        if gone:
            core.records.end_leases(gone, now)
            log.info("leases dropped count=%d", len(gone))
        return fleet(core)

    def _dropped(self, node: str, permit: str) -> bool:
        """Whether the node has said, after the lease was last offered to it, that it does not hold it."""
        mine = self._out.get(node)
        if mine is not None and mine.permit == permit:
            return False
        said = self._held.get(node)
        # One of a former server was last offered before this one began.
        ended = self._ended.setdefault(permit, time.monotonic())
        return said is not None and said[0] > ended and permit not in said[1]

    def _too_much(self, seen: Fleet, codes: tuple[str, ...]) -> list[str]:
        """The nodes whose lease is called back, the one that lasts longest first."""
        kept, back = list[str](), list[str]()
        for node, lease in sorted(self._out.items(), key=lambda item: item[1].expires_at):
            view = seen.nodes.get(node)
            good = view is not None and view.in_service and set(lease.codes) <= set(codes)
            (kept if good and not self._left_alone(node) else back).append(node)
        # Those just called back are about to be dropped; where the agent is away instead, others make room.
        lately = time.monotonic() - LIVE_SECONDS
        leaving = sum(at > lately for at in self._ended.values())
        others = max(0, len(seen.promised) - len(self._out) - leaving)
        return back + kept[max(0, self._allowed(seen) - others - len(back)) :]

    def _allowed(self, seen: Fleet) -> int:
        """How many leases may be out, as if none were."""
        core = self._core
        return int(headroom(replace(seen, promised=frozenset()), core.guard) * core.settings.lease_share)

    def _call_back(self, node: str) -> None:
        lease = self._out.pop(node)
        self._ended[lease.permit] = time.monotonic()
        self._core.count("leases_called_back_total")
        self._core.orders.wake(self._core.cluster, node)
        log.info("lease called back node=%s", node)

    def _next(self, seen: Fleet) -> list[str]:
        """The nodes that get one now, those that were heard last first."""
        now = time.monotonic()
        self._live = {n: at for n, at in self._live.items() if now - at < LIVE_SECONDS}
        room = self._allowed(seen) - len(seen.promised)
        tally, found = Tally(seen, self._core.guard), list[str]()
        for node in sorted(self._live, key=lambda n: -self._live[n])[:LIVE_LIMIT]:
            if len(found) >= room:
                break
            view = seen.nodes.get(node)
            if view is None or not view.in_service or self._left_alone(node) or node in seen.promised:
                continue
            if tally.authorize(node, "lease").allowed:
                tally.promise(node)
                found.append(node)
        return found
