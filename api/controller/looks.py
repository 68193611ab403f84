"""After hands were off a node it is looked at as a whole before it is judged; so many nodes at once and no more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import ColumnElement, RowMapping, delete, insert, select, update

from api.controller.clean import not_clean
from api.controller.core import Core
from api.controller.orders import new_order
from api.controller.service_tables import node_looks
from api.service_port import LookView
from api.store.database import Database
from checks.wire import clean

log = logging.getLogger(__name__)
# What is known of a node from before these has no consequence until the look is answered or given up.
FIRST: frozenset[str] = frozenset({"maintenance", "reboot", "ready"})
_BY_SLURM: frozenset[str] = frozenset({"maintenance", "reboot"})


@dataclass(frozen=True, slots=True)
class Look:
    """One node that is to be looked at; ``order_id`` None: not asked yet.

    ``kind``: what made it owed, ``maintenance``, ``reboot``, ``ready`` (a person's word, or a pause) or ``identity``.
    """

    node: str
    kind: str
    why: str
    wanted_at: datetime
    order_id: str | None
    asked_at: datetime | None


class Looks:
    """Which looks are owed, as read last and written through."""

    def __init__(self, core: Core, database: Database) -> None:
        self._core, self._db = core, database
        self._owed: Mapping[str, Look] | None = None

    def owed(self) -> Mapping[str, Look]:
        """The looks that are owed, by node."""
        if self._owed is None:
            query = select(node_looks).where(node_looks.c.cluster == self._core.cluster, node_looks.c.done_at.is_(None))
            with self._db.read() as connection:
                rows = list(connection.execute(query.order_by(node_looks.c.wanted_at, node_looks.c.node)).mappings())
            self._owed = {row["node"]: _look(row) for row in rows}
        return self._owed

    def first(self, node: str) -> datetime | None:
        """Since when hands are off no more while the look that is owed has not been answered."""
        found = self.owed().get(node)
        return found.wanted_at if found is not None and found.kind in FIRST else None

    async def want(self, nodes: Sequence[str], kind: str, why: str, actor: str = "controller") -> None:
        """Owe each node a look; an older debt is replaced. As many as may be are asked for at once."""
        await asyncio.to_thread(self._want, nodes, kind, why, actor)
        await self._ask()

    def _want(self, nodes: Sequence[str], kind: str, why: str, actor: str) -> None:
        common = {"cluster": self._core.cluster, "why": why, "actor": actor}
        rows = [{**common, "node": n, **self._debt(n, kind)} for n in dict.fromkeys(nodes)]
        if not rows:
            return
        self._forget(row["node"] for row in rows)
        with self._db.begin() as connection:
            connection.execute(insert(node_looks), [{**row, "result": "", "detail": ""} for row in rows])
        self._owed = None

    def _debt(self, node: str, kind: str) -> dict[str, object]:
        """What the node owes: that a part is new brings nothing back that was seen before hands left it."""
        old = self.owed().get(node)
        if old is not None and old.kind in FIRST and kind not in FIRST:
            return {"kind": old.kind, "wanted_at": old.wanted_at}
        return {"kind": kind, "wanted_at": self._core.clock()}

    def _forget(self, nodes: Iterable[object]) -> None:
        names = [str(n) for n in nodes]
        old = [found.order_id for n in names if (found := self.owed().get(n)) and found.order_id]
        self._core.orders.done(old)
        with self._db.begin() as connection:
            for name in names:
                connection.execute(delete(node_looks).where(*self._of(name)))

    async def keep(self) -> None:
        """Take the answers that have come, give up what nobody answers, and ask for the next."""
        await asyncio.to_thread(self._settle_all)
        await self._ask()

    def _settle_all(self) -> None:
        for look in list(self.owed().values()):
            self._settle(look)

    def _settle(self, look: Look) -> None:
        core = self._core
        state = core.view.states.get(look.node)
        if core.paused(look.node) or (look.kind in _BY_SLURM and state is not None and state.hands_off):
            # Somebody is at it again: it is asked anew when they have gone.
            self._done(look, "silent", "hands are off it again")
            return
        if look.order_id is not None:
            reports = core.store.recent_reports(core.cluster, look.node, limit=20)
            found = next((r for r in reports if f"order:{look.order_id}" in r.notes), None)
            if found is not None:
                why = not_clean(found, (), core.policy)
                self._done(look, "bad" if why else "clean", why)
                return
        since = look.asked_at or look.wanted_at
        limit = core.settings.verify_timeout if look.asked_at else core.settings.look_patience
        if abs(core.clock() - since) > timedelta(seconds=limit):
            self._done(look, "silent", f"not answered within {limit:g} s")

    def _done(self, look: Look, result: str, detail: str) -> None:
        core = self._core
        core.orders.done([look.order_id] if look.order_id else [])
        self._write(look.node, done_at=core.clock(), result=result, detail=clean(detail))
        core.audit(f"look {result}", look.node, f"{look.why}{f': {detail}' if detail else ''}")
        log.info("look node=%s result=%s detail=%r", look.node, result, detail)

    async def _ask(self) -> None:
        core = self._core
        for node in await asyncio.to_thread(self._next):
            # Orders wake polls, which is for the loop alone.
            order = core.orders.give(core.cluster, node, new_order("verify"))
            await asyncio.to_thread(self._write, node, order_id=order.id, asked_at=core.clock())

    def _next(self) -> list[str]:
        """The nodes that listen come first: the others would only keep them waiting."""
        core = self._core
        free = core.settings.looks_at_once - sum(1 for look in self.owed().values() if look.order_id)
        waiting = [look for look in self.owed().values() if look.order_id is None]
        waiting.sort(key=lambda w: not core.orders.live(core.cluster, w.node))
        return [look.node for look in waiting[: max(0, free)]]

    def _write(self, node: str, **values: object) -> None:
        with self._db.begin() as connection:
            connection.execute(update(node_looks).where(*self._of(node)).values(**values))
        self._owed = None

    def _of(self, node: str) -> tuple[ColumnElement[bool], ...]:
        return (node_looks.c.cluster == self._core.cluster, node_looks.c.node == node)

    def forget(self) -> None:
        """Read anew: another server may have written meanwhile."""
        self._owed = None

    def resume(self) -> None:
        """After a restart the orders of the process before are gone: what it had asked for is asked anew."""
        with self._db.begin() as connection:
            connection.execute(
                update(node_looks)
                .where(node_looks.c.cluster == self._core.cluster, node_looks.c.done_at.is_(None))
                .values(order_id=None, asked_at=None)
            )
        self._owed = None

    def views(self) -> list[LookView]:
        """The last look of each node."""
        query = select(node_looks).where(node_looks.c.cluster == self._core.cluster).order_by(node_looks.c.node)
        with self._db.read() as connection:
            return [_view(row) for row in connection.execute(query).mappings()]


def _look(row: RowMapping) -> Look:
    return Look(**{name: row[name] for name in Look.__dataclass_fields__})


def _view(row: RowMapping) -> LookView:
    state: Literal["waiting", "asked", "clean", "bad", "silent"] = row["result"] or (
        "asked" if row["order_id"] else "waiting"
    )
    same = ("cluster", "node", "why", "actor", "wanted_at", "done_at", "detail")
    return LookView(state=state, **{name: row[name] for name in same})
