"""Orders wait here for an agent's open poll to carry them; an open poll is also the agent's proof of life."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import OrderedDict, defaultdict
from collections.abc import Iterable

from api.ports import OrderKind
from checks.wire import Order

# Between two polls an agent is away for a round trip; a member counts as live this long after its last poll ended.
GRACE_SECONDS = 2.0
ORDERS_PER_NODE = 32
GIVEN_LIMIT = 65_536


class Orders:
    """Orders per (cluster, node), delivered again until the agent says that they are done."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], dict[str, Order]] = defaultdict(dict)
        self._given: OrderedDict[str, None] = OrderedDict()
        self._home: dict[str, tuple[str, str]] = {}
        self._wake: dict[tuple[str, str], asyncio.Event] = {}
        self._open: dict[tuple[str, str], int] = defaultdict(int)
        self._closed: dict[tuple[str, str], float] = {}
        self._sent: dict[tuple[str, str], set[str]] = defaultdict(set)

    def give(self, cluster: str, node: str, order: Order) -> Order:
        """Queue an order; the oldest makes room when a node has too many."""
        mine = self._waiting[cluster, node]
        while len(mine) >= ORDERS_PER_NODE:
            self.done([next(iter(mine))])
        mine[order.id] = order
        self._given[order.id] = None
        while len(self._given) > GIVEN_LIMIT:
            self._given.popitem(last=False)
        self._home[order.id] = (cluster, node)
        if event := self._wake.get((cluster, node)):
            event.set()
        return order

    def given(self, order_id: str) -> bool:
        """Whether this process has given the order, done by now or not; a former one's orders died with it."""
        return order_id in self._given

    def wake(self, cluster: str, node: str) -> None:
        """Have the node's open poll answered now: what else its reply carries has changed."""
        if event := self._wake.get((cluster, node)):
            event.set()

    def wake_all(self) -> None:
        """Have every open poll answered now."""
        for event in self._wake.values():
            event.set()

    async def take(self, cluster: str, node: str, wait: float) -> tuple[Order, ...]:
        """Orders not yet sent on this connection's turn; waits up to ``wait`` seconds for one."""
        key = (cluster, node)
        event = self._wake.setdefault(key, asyncio.Event())
        self._open[key] += 1
        try:
            if not self._unsent(key):
                event.clear()
                try:
                    await asyncio.wait_for(event.wait(), max(0.0, wait))
                except asyncio.TimeoutError:
                    # A reply that was lost on its way is offered again at the next poll.
                    self._sent.pop(key, None)
            ready = self._unsent(key)
            self._sent[key].update(o.id for o in ready)
            return ready
        finally:
            self._open[key] -= 1
            self._closed[key] = time.monotonic()

    def _unsent(self, key: tuple[str, str]) -> tuple[Order, ...]:
        return tuple(o for i, o in self._waiting[key].items() if i not in self._sent[key])

    def done(self, ids: Iterable[str]) -> None:
        """Forget orders that an agent has carried out; ids are unguessable and unique."""
        for order in ids:
            if (key := self._home.pop(order, None)) is not None:
                self._waiting[key].pop(order, None)
                self._sent[key].discard(order)

    def live(self, cluster: str, node: str) -> bool:
        """Whether the node's agent has a poll open, or had one a moment ago."""
        key = (cluster, node)
        # Whoever asks may name nodes that do not exist: looking must not add them.
        return self._open.get(key, 0) > 0 or time.monotonic() - self._closed.get(key, -1e9) < GRACE_SECONDS


def new_order(kind: OrderKind, checks: tuple[str, ...] = (), *, deep: bool = False) -> Order:
    """An order with a fresh id; ``deep``: nobody needs the node, so the device may be tried as well."""
    return Order(id=secrets.token_hex(8), kind=kind, checks=checks, deep=deep)
