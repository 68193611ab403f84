"""Remedies are begun only on a node that is still wholly ours and still ill, and followed to their end."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from functools import partial

from api.controller.core import Core
from api.controller.drain_record import DrainRecord
from api.controller.orders import new_order
from api.remedy import acts
from api.remedy.book import Book
from api.remedy.desk import Planner
from api.remedy.judge import Nothing, protected
from api.remedy.port import RemediesView, RemedyMode, RemedyRow, RemedyView
from api.remedy.record import RemedyRecord, RemedyState
from api.remedy.settings import REBOOT, RESET, RUN, RemedySettings
from api.store.database import Database
from checks.wire import PollRequest, Remedied
from slurm.errors import SlurmError
from slurm.mend import hold_if_ours
from slurm.ownership import OurRecord, Result
from slurm.reason import parse
from slurm.state import NodeState

log = logging.getLogger(__name__)
# Beside an order's own limit: what the agent needs to let go, ask and tell.
AGENT_MARGIN = 240.0
REBOOT_SEEN = 120.0
HEARD = 4096
_LOUD: frozenset[RemedyState] = frozenset({"failed", "hung", "unknown", "refused"})


class Remedies:
    """Implements api.remedy.port.RemedyPort, and the controller's step ``look``."""

    def __init__(self, core: Core, database: Database, settings: RemedySettings) -> None:
        self._core, self._settings = core, settings
        self._book = Book(database, core.cluster, core.fence.announcing)
        self.planner = Planner(core, self._book, settings)
        self._told: dict[str, Remedied] = {}
        self._given: set[str] = set()
        self._here: dict[int, asyncio.Task[acts.Ended]] = {}
        self._nodes: dict[str, str] | None = None
        core.working = self.working

    def working(self, node: str) -> str:
        """What is being done to a node, empty when nothing is."""
        if self._nodes is None:
            # A server that has just started must know before it gives the first node back.
            self._nodes = _under_way(self._book.open())
        return self._nodes.get(node, "")

    # -- what the routes ask

    def heard(self, request: PollRequest) -> None:
        """An agent said what it may do and what it has done."""
        if request.cluster != self._core.cluster:
            return
        self.planner.may[request.node] = request.remedies
        self._told.update({one.order: one for one in request.remedied})
        while len(self._told) > HEARD:
            self._told.pop(next(iter(self._told)))

    async def ask(
        self, node: str, action: str, gpus: tuple[str, ...], actor: str, *, dry_run: bool = False
    ) -> RemedyRow:
        """Have a remedy carried out for a person, or say why not."""
        return await self.planner.ask(node, action, gpus, actor, dry_run)

    async def cancel(self, number: int, actor: str) -> bool:
        """Take back one that has not begun."""
        for record in await asyncio.to_thread(self._book.open):
            if record.id == number and record.state == "planned":
                why = f"taken back by {actor}"
                return (
                    await asyncio.to_thread(self._book.move, record, self._core.clock(), "cancelled", why) is not None
                )
        return False

    def listing(self, node: str | None = None, *, limit: int = 200) -> RemediesView:
        """What was done, what waits, and what may be done at all."""
        actions = (RESET, REBOOT, *(RUN + name for name in self._settings.run))
        rows = self._book.listing(node=node, limit=limit)
        return RemediesView(
            items=[RemedyView(**{n: getattr(r, n) for n in RemedyView.__struct_fields__}) for r in rows],
            waiting=[w for w in self.planner.waiting.values() if node in (None, w.node)],
            modes=[RemedyMode(action=a, mode=self._settings.mode_of(a)) for a in actions],
        )

    # -- the controller's step

    async def look(self) -> None:
        """One round: follow what runs, begin what is planned, propose what is next."""
        core = self._core
        opened = await asyncio.to_thread(core.records.open_drains, core.cluster)
        running = await asyncio.to_thread(self._book.open)
        self._nodes = _under_way(running)
        for record in running:
            step = self._follow if record.state == "running" else self._begin
            await core.spare(record.node, step(record, opened.get(record.node)))
        await self.planner.propose()

    async def _begin(self, record: RemedyRecord, drain: DrainRecord | None) -> None:
        core = self._core
        if self._settings.mode_of(record.action) != "on":
            await self._end(record, "refused", f"{record.action} is switched off")
            return
        async with core.node_locks[record.node]:
            if why := await self._not_now(record, drain):
                if core.clock() - record.created_at > timedelta(seconds=self._settings.patience):
                    await self._end(record, "expired", why)
                return
            boot = await asyncio.to_thread(core.boot_of, record.node)
            begun = await asyncio.to_thread(
                partial(self._book.move, record, core.clock(), "running", "begun", boot_id=boot)
            )
            if begun is None or drain is None:
                return
            self._nodes = {**(self._nodes or {}), record.node: f"{record.action} is under way"}
            log.warning("remedy begun id=%d node=%s action=%s", record.id, record.node, record.action)
            ended = await self._act(begun, drain)
        if ended is not None:
            await self._end(begun, *ended)

    async def _not_now(self, record: RemedyRecord, drain: DrainRecord | None) -> str:
        """Why it may not begin: Slurm is asked again, and automation looks again whether the fault is still there."""
        core = self._core
        if drain is not None and drain.token != record.token:
            return "the drain that it was planned for is over"
        try:
            state = await core.view.call(core.view.backend.node, record.node)
        except (SlurmError, TimeoutError) as error:
            return f"slurm does not say how the node is: {error}"
        why = protected(state, drain, automatic=record.automatic) or core.paused(record.node) or ""
        if why or (why := self.planner.cannot(record.node, record.action)):
            return why
        if record.automatic:
            wish = await asyncio.to_thread(self.planner.wish, record.node)
            if isinstance(wish, Nothing):
                return wish.why
            if wish.action != record.action:
                return f"what fails now asks for {wish.action}"
        return ""

    async def _act(self, record: RemedyRecord, drain: DrainRecord) -> acts.Ended | None:
        if record.action == REBOOT:
            return await acts.reboot(self._core, record, drain)
        if self._settings.on_node(record.action):
            self._give(record)
            return None
        run = self._settings.run[record.action.removeprefix(RUN)]
        self._here[record.id] = asyncio.ensure_future(acts.run_server(record, run))
        return None

    def _give(self, record: RemedyRecord) -> None:
        if record.order_id not in self._given:
            self._given.add(record.order_id)
            self._core.orders.give(self._core.cluster, record.node, acts.order_of(record, self._settings))

    async def _follow(self, record: RemedyRecord, drain: DrainRecord | None) -> None:
        age = (self._core.clock() - (record.started_at or record.created_at)).total_seconds()
        if record.action == REBOOT:
            ended = await self._rebooted(record, drain, age)
        elif self._settings.on_node(record.action):
            ended = self._answered(record, drain, age)
        else:
            ended = self._ran(record)
        if ended is not None:
            await self._end(record, *ended)

    def _answered(self, record: RemedyRecord, drain: DrainRecord | None, age: float) -> acts.Ended | None:
        """What the agent says became of the order; without a word it is offered until its time is over.

        It is not offered any more once it is switched off, or the node is somebody else's.
        """
        told = self._told.get(record.order_id)
        if told is not None and told.outcome != "running":
            return ("unknown" if told.outcome == "lost" else told.outcome), told.text
        # Only a poll since our own start tells whether the agent began for a server that is gone.
        heard = record.node in self.planner.may
        if told is None and heard and age > self._settings.patience:
            return "expired", f"the agent did not begin within {self._settings.patience:g} s"
        if age > self._settings.patience + record_limit(record, self._settings):
            return "unknown", "the agent began, or may have, and has not told how it ended"
        if told is not None or not heard:
            return None
        if why := self._not_ours(record, drain):
            return "unknown", f"{why}: the order is taken back, and whether the agent had begun is not known"
        self._give(record)
        return None

    def _not_ours(self, record: RemedyRecord, drain: DrainRecord | None) -> str:
        core, node = self._core, record.node
        if self._settings.mode_of(record.action) != "on":
            return f"{record.action} is switched off"
        if drain is not None and drain.token != record.token:
            return "the drain that it was planned for is over"
        return protected(core.view.states.get(node), drain, automatic=record.automatic) or core.paused(node) or ""

    def _ran(self, record: RemedyRecord) -> acts.Ended | None:
        task = self._here.get(record.id)
        if task is None:
            return "unknown", "the server ended while it ran, so what became of it is not known; it is not run again"
        if not task.done():
            return None
        del self._here[record.id]
        error = task.exception()
        return task.result() if error is None else ("unknown", f"{type(error).__name__}: {error}")

    async def _rebooted(self, record: RemedyRecord, drain: DrainRecord | None, age: float) -> acts.Ended | None:
        """The node's own new boot is what tells; Slurm's flags tell that it is on its way."""
        core = self._core
        state, boot = core.view.states.get(record.node), await asyncio.to_thread(core.boot_of, record.node)
        if boot and boot != record.boot_id and state is not None and not state.flags & acts.REBOOTING:
            return await self._back(record, drain, state)
        if age > self._settings.timeout_of(REBOOT):
            return "failed", f"no new boot within {age:.0f} s"
        asked = state is not None and bool(state.flags & acts.REBOOTING)
        if age > REBOOT_SEEN and state is not None and not asked and state.responding and state.base != "DOWN":
            return "unknown", "slurm shows no reboot, and the node has not booted anew"
        return None

    async def _back(self, record: RemedyRecord, drain: DrainRecord | None, state: NodeState) -> acts.Ended:
        """Booted anew: it must be drained under our reason until it is verified."""
        core = self._core
        ours = parse(state.reason.text) if state.reason and state.out_of_service else None
        if drain is not None and ours is not None and ours.token == drain.token and not state.flags & {"DRAIN"}:
            # DOWN under our reason: with ReturnToService=2 Slurm would put it in service at its next registration.
            try:
                held = await (await core.pen()).change(
                    record.node, hold_if_ours, OurRecord(drain.reason, drain.reason_before)
                )
                trouble = held.detail if held.result is Result.FAILED else ""
            except (SlurmError, TimeoutError) as error:
                trouble = str(error)
            if trouble:
                await asyncio.to_thread(core.incident, record.node, "drain_failed", trouble)
        if not state.out_of_service:
            return "done", "booted anew, and Slurm put it in service before it was verified"
        return "done", "booted anew, verified before it is given back"

    async def _end(self, record: RemedyRecord, state: RemedyState, why: str) -> None:
        core = self._core
        if await asyncio.to_thread(self._book.move, record, core.clock(), state, why) is None:
            return
        (self._nodes or {}).pop(record.node, None)
        self._given.discard(record.order_id)
        self._told.pop(record.order_id, None)
        core.orders.done([record.order_id])
        core.count(f"remedies_{state}_total")
        log.warning("remedy ended id=%d node=%s action=%s state=%s", record.id, record.node, record.action, state)
        code = "remedy_failed"
        if state in _LOUD:
            text = f"{record.action} {state}: {why}"
            await asyncio.to_thread(core.incident, record.node, code, text)
        elif state == "done":
            await asyncio.to_thread(core.solved, record.node, code, why)
        if record.started_at is not None:
            # Whatever became of it, what is known of the node is of before.
            core.orders.give(core.cluster, record.node, new_order("verify"))


def _under_way(records: list[RemedyRecord]) -> dict[str, str]:
    """By node what is being done to it."""
    return {r.node: f"{r.action} is under way" for r in records if r.state == "running"}


def record_limit(record: RemedyRecord, settings: RemedySettings) -> float:
    """How long the agent may take in all."""
    return settings.timeout_of(record.action) + AGENT_MARGIN
