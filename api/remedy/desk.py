"""A remedy for a node is planned here, by automation or for a person, and every reason against it is said."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from api.controller.automatic import judge_now, of_this_boot
from api.controller.core import Core
from api.controller.drain_record import DrainRecord
from api.remedy.book import Book
from api.remedy.judge import DAY, Nothing, Wish, choose, elsewhere, limited, protected, waits
from api.remedy.port import RemedyRow, RemedyWait
from api.remedy.record import NewRemedy, RemedyRecord, RemedyState
from api.remedy.settings import ACTION, RemedySettings
from checks.wire import Finding, clean
from slurm.errors import SlurmError

EXHAUSTED = "remedy_needs_person"


class Planner:
    """Proposes for drained nodes, and answers people; it only writes down, nothing is done to a node here."""

    def __init__(self, core: Core, book: Book, settings: RemedySettings) -> None:
        self._core, self._book, self.settings = core, book, settings
        self.waiting: dict[str, RemedyWait] = {}
        self.may: dict[str, tuple[str, ...]] = {}

    async def propose(self) -> None:
        """One round over the drained nodes of ours."""
        core = self._core
        waiting: dict[str, RemedyWait] = {}
        if core.settings.automation and self.settings.mode != "off":
            busy = {r.node for r in await asyncio.to_thread(self._book.open)}
            for record in (await asyncio.to_thread(core.records.open_drains, core.cluster)).values():
                mine = record.automatic and record.state == "drained" and record.node not in busy
                if mine and (found := await self._one(record)) is not None:
                    waiting[record.node] = found
        self.waiting = waiting

    async def _one(self, record: DrainRecord) -> RemedyWait | None:
        core, node = self._core, record.node
        state = core.view.states.get(node)
        why = protected(state, record, automatic=True) or core.paused(node) or ""
        why = why or (f"{record.resume_by} asked for it back" if record.resume_by else "")
        why = why or (f"held for a person: {record.held}" if record.held else "")
        if why or state is None:
            return RemedyWait(node=node, action="", codes=record.codes, why=why)
        wish = await asyncio.to_thread(self.wish, node)
        if isinstance(wish, Nothing):
            if wish.person:
                await asyncio.to_thread(core.incident, node, EXHAUSTED, wish.why)
            elif core.notices.said(node, EXHAUSTED):
                await asyncio.to_thread(core.solved, node, EXHAUSTED, wish.why)
            return RemedyWait(node=node, action="", codes=record.codes, why=wish.why)
        why = elsewhere(self.settings, state, core.clock()) or await self._plan(record, wish)
        return RemedyWait(node=node, action=wish.action, codes=wish.codes, why=why) if why else None

    async def _plan(self, record: DrainRecord, wish: Wish) -> str:
        mode = self.settings.mode_of(wish.action)
        if mode == "off":
            return f"{wish.action} is switched off"
        if mode == "on" and (why := self.cannot(record.node, wish.action)):
            return why
        new = NewRemedy(
            node=record.node,
            action=wish.action,
            codes=wish.codes,
            gpus=wish.gpus,
            actor="controller",
            automatic=True,
            token=record.token,
            why="would be carried out" if mode == "dry_run" else "planned",
            state="dry_run" if mode == "dry_run" else "planned",
        )
        if mode == "dry_run":
            return await asyncio.to_thread(self._note, new)
        made = await asyncio.to_thread(self._write, new, wish)
        return made if isinstance(made, str) else ""

    def _note(self, new: NewRemedy) -> str:
        """A dry run is written down once for each drain, step and set of codes."""
        now = self._core.clock()
        before = self._book.since(new.node, now - timedelta(days=30))
        same = [
            r for r in before if (r.token, r.action, r.codes, r.state) == (new.token, new.action, new.codes, "dry_run")
        ]
        if not same:
            self._book.plan(new, now, now - DAY, lambda _: "")
        return "dry run: it is only written down"

    def _write(self, new: NewRemedy, wish: Wish) -> RemedyRecord | str:
        now = self._core.clock()

        def limit(seen: Sequence[RemedyRecord]) -> str:
            return limited(self.settings, new.node, wish, now, seen, automatic=new.automatic)

        return self._book.plan(new, now, now - DAY, limit)

    def wish(self, node: str) -> Wish | Nothing:
        """What the present findings ask for; old ones, and ones from before the last remedy, ask for nothing."""
        core, now = self._core, self._core.clock()
        past = self._book.since(node, now - timedelta(seconds=self.settings.again_within))
        ended = max((r.changed_at for r in past if not r.open and r.started_at is not None), default=None)
        found = of_this_boot(core, node, core.store.current_findings(core.cluster, node))
        fresh = [f for f in found if ended is None or (f.observed_at is not None and f.observed_at > ended)]
        decision = judge_now(core, fresh, now, node)
        if decision.wanted == "admit":
            return Nothing(
                "the present check is clean" if fresh else "nothing has been looked at since the last remedy"
            )
        failing: list[Finding] = [f for f in fresh if f.code in decision.codes and f.status == "fail"]
        wish = choose(core.policy, failing, past, self.settings)
        if isinstance(wish, Wish) and (why := waits(self.settings, wish.action, now, past)):
            return Nothing(why)
        return wish

    def cannot(self, node: str, action: str) -> str:
        """Why the node's agent cannot be asked for this."""
        if not self.settings.on_node(action):
            return ""
        if not self._core.orders.live(self._core.cluster, node):
            return "its agent has no poll open"
        if action not in self.may.get(node, ()):
            return f"its agent's own configuration does not allow {action}"
        return ""

    async def ask(self, node: str, action: str, gpus: tuple[str, ...], actor: str, dry_run: bool) -> RemedyRow:
        """A person's wish, bound by everything but quiet hours, partitions and what has been tried."""
        row = partial(RemedyRow, node=node, action=action)
        if not ACTION.fullmatch(action):
            return row(outcome="refused", why="no such action: reset-gpu, reboot or run:NAME")
        mode = self.settings.mode_of(action)
        if mode == "off":
            return row(outcome="refused", why=f"{action} is switched off: [remedy] of the server's configuration")
        if why := await self._against(node, action):
            return row(outcome="refused", why=why)
        if dry_run or mode == "dry_run":
            return row(outcome="would", why=f"would {action} {', '.join(gpus)}".rstrip() + "; nothing is done")
        opened = await asyncio.to_thread(self._core.records.open_drains, self._core.cluster)
        if (drain := opened.get(node)) is None:
            return row(outcome="refused", why="its drain has just ended")
        state: RemedyState = "planned"
        new = NewRemedy(node, action, (), gpus, actor, False, drain.token, f"asked for by {actor}", state)
        made = await asyncio.to_thread(self._write, new, Wish(action, (), gpus))
        if isinstance(made, str):
            return row(outcome="refused", why=made)
        return row(outcome="planned", why="it is carried out as soon as may be", id=made.id)

    async def _against(self, node: str, action: str) -> str:
        core = self._core
        opened = await asyncio.to_thread(core.records.open_drains, core.cluster)
        try:
            state = await core.view.call(core.view.backend.node, node)
        except (SlurmError, TimeoutError) as error:
            return clean(f"slurm does not say how the node is: {error}")
        return protected(state, opened.get(node), automatic=False) or core.paused(node) or self.cannot(node, action)
