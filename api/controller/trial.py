"""A drained node proves itself with a job of ours before anybody else's can start there, and a crash lets none in.

Slurm starts no job on a drained node, not even in a reservation. So the reservation comes first, then the job is handed
in, and only then is the node resumed, into the reservation: nobody else's job may start there. The reservation lasts a
year: a server that never comes back leaves the node unused, never unproved in service. Every step is written down
before Slurm is asked for it, and after a restart goes on from there or backs out: drained again first, then tidied.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pwd
from collections.abc import Awaitable, Callable

from api.controller.clean import not_clean
from api.controller.core import Core
from api.controller.drain_record import DrainRecord
from api.controller.orders import new_order
from api.controller.pace import DRAIN
from api.controller.trial_book import Step, Trial, TrialBook
from api.controller.trial_end import Endings, is_ours
from api.store.database import Database
from slurm.batch import Batch
from slurm.errors import SlurmError
from slurm.hostlist import fold
from slurm.ownership import OurRecord, Result, resume_if_ours
from slurm.reservation import Reservation

log = logging.getLogger(__name__)
YEAR = 365 * 86400
TAG = "nodevet_"
STEPS_AT_ONCE = 8
# What Slurm needs to start and to clear away a job, beyond the job's own time.
GRACE_SECONDS = 120.0
# How a job ends that says nothing of its node: somebody, or a limit, ended it.
BY_OTHERS = frozenset({"CANCELLED", "PREEMPTED", "DEADLINE"})
Go = Callable[[Trial, DrainRecord], Awaitable[bool]]


class Trials:
    """Runs trials, a few at a time."""

    def __init__(self, core: Core, database: Database) -> None:
        self._core = core
        self.book = TrialBook(database, core.cluster, core.fence)
        self._ends = Endings(core, self.book)
        self._swept = False
        self._ways: dict[Step, Go] = {
            "reserve": self._reserve,
            "submit": self._unsure,
            "enter": self._enter,
            "run": self._run,
            "look": self._look,
            "free": self._ends.free,
            "drain": self._ends.drain,
            "tidy": self._ends.tidy,
        }

    async def begin(self, record: DrainRecord) -> None:
        """Try this node next; with enough under way it waits, drained and verified, for the next round."""
        core = self._core
        opened = await asyncio.to_thread(self.book.open)
        # One of this node that is open yet is what a server left that died right here; it is tidied first.
        if len(opened) >= core.settings.trials_at_once or any(t.node == record.node for t in opened):
            await asyncio.to_thread(core.records.change, record, core.clock(), state="drained", order_id=None)
            return
        if record.resume_by is None:
            await core.pace.turn(DRAIN)
        name = f"{TAG}{record.token}"
        await asyncio.to_thread(self.book.begin, record.node, record.id, name, core.clock())
        await asyncio.to_thread(core.records.change, record, core.clock(), state="testing", order_id=None)
        core.tried |= {record.node}
        await asyncio.to_thread(core.audit, "trial begun", record.node, f"reservation {name}")

    async def keep(self) -> None:
        """Every trial goes as far as it can now."""
        if not self._swept:
            self._swept = await self._core.spare("", self._sweep())
        opened = await asyncio.to_thread(self.book.open)
        self._core.tried = frozenset(t.node for t in opened)
        for trial in opened:
            await self._core.spare(trial.node, self._go(trial))
        await asyncio.to_thread(self._ends.still_not_done)

    async def _sweep(self) -> None:
        """Once after a start: a reservation without a row goes where our own drain stands, else it is said."""
        core = self._core
        try:
            there = await core.view.call(core.view.backend.reservations)
        except (SlurmError, TimeoutError) as error:
            log.info("reservations not read why=%s", error)
            return
        known = {t.reservation for t in await asyncio.to_thread(self.book.open)}
        for name in sorted(n for n in there if n.startswith(TAG) and n not in known):
            nodes = there[name].nodes
            if await asyncio.to_thread(self._left_behind, name, nodes):
                pen = await core.pen()
                what = f"reservation {name} deleted: no trial of ours"
                await pen.tell(fold(nodes), what, core.view.backend.delete_reservation, name)
            else:
                text = f"reservation {name} of {fold(nodes)} is of our form but no trial agrees: look, then delete it"
                await asyncio.to_thread(core.incident, "", "reservation_unknown", text)

    def _left_behind(self, name: str, nodes: tuple[str, ...]) -> bool:
        """Whether it is of a drain on our record that stands on its one node: others may name theirs like ours."""
        record = self._core.records.by_token(name.removeprefix(TAG))
        if record is None or (record.cluster, (record.node,)) != (self._core.cluster, nodes):
            return False
        state = self._core.view.states.get(record.node)
        return state is not None and is_ours(state, record)

    async def _go(self, trial: Trial) -> None:
        core = self._core
        async with core.node_locks[trial.node]:
            for _ in range(STEPS_AT_ONCE):
                opened = await asyncio.to_thread(core.records.open_drains, core.cluster)
                record = opened.get(trial.node)
                if record is None or record.id != trial.drain_id or record.state != "testing":
                    await self._ends.abandon(trial)
                    return
                if (paused := core.paused(trial.node)) and trial.step not in ("drain", "tidy"):
                    # Where the node has not been resumed yet nothing is lost; else it stays where nobody can start.
                    if trial.step in ("reserve", "submit"):
                        await self._ends.out(trial, "tidy", paused)
                    return
                try:
                    went = await self._ways[trial.step](trial, record)
                except (SlurmError, TimeoutError) as error:
                    await self._stuck(trial, str(error))
                    return
                if not went:
                    return
                again = [t for t in await asyncio.to_thread(self.book.open) if t.id == trial.id]
                if not again:
                    return
                trial = again[0]

    async def _stuck(self, trial: Trial, why: str) -> None:
        """Slurm did not do it: before the node was resumed we back out, afterwards the step is tried again."""
        await asyncio.to_thread(self._core.incident, trial.node, "trial_stuck", f"{trial.step}: {why}")
        if trial.step in ("reserve", "submit"):
            await self._ends.out(trial, "tidy", why)

    async def _reserve(self, trial: Trial, record: DrainRecord) -> bool:
        core, backend = self._core, self._core.view.backend
        pen = await core.pen()
        state = await core.view.call(backend.node, trial.node)
        there = await core.view.call(backend.reservations)
        others = [r.name for r in there.values() if trial.node in r.nodes and r.name != trial.reservation]
        if not state.drained or not is_ours(state, record) or state.hands_off or others:
            why = f"reserved as {others[0]}" if others else f"{state} is not as we left it"
            return await self._ends.out(trial, "tidy", f"node {trial.node}: {why}")
        if trial.reservation not in there:
            user = core.settings.trial_user or pwd.getpwuid(os.geteuid()).pw_name
            wish = Reservation(trial.reservation, (trial.node,), YEAR, users=(user,))
            await pen.tell(trial.node, f"reservation {trial.reservation}", backend.create_reservation, wish)
        trial = await asyncio.to_thread(self.book.step, trial, "submit", core.clock())
        job = await pen.tell(trial.node, f"job {trial.reservation}", backend.submit, self._batch(trial))
        await asyncio.to_thread(self.book.step, trial, "enter", core.clock(), job_id=job)
        return True

    def _batch(self, trial: Trial) -> Batch:
        settings = self._core.settings
        return Batch(
            name=trial.reservation,
            argv=tuple(word.replace("%n", trial.node) for word in settings.trial_command),
            nodes=(trial.node,),
            seconds=int(settings.trial_seconds),
            partition=settings.trial_partition,
            reservation=trial.reservation,
            gres=settings.trial_gres,
        )

    async def _unsure(self, trial: Trial, record: DrainRecord) -> bool:
        """Whether the job was handed in before a crash is not known; the node has not been resumed yet."""
        return await self._ends.out(trial, "tidy", "the server ended while it handed in the job")

    async def _enter(self, trial: Trial, record: DrainRecord) -> bool:
        """Resume the node into the reservation, which must be there and hold this node and no other."""
        core = self._core
        if not await self._reserved(trial):
            return await self._ends.out(trial, "tidy", f"reservation {trial.reservation} is gone")
        pen = await core.pen()
        ours, by_person = OurRecord(record.reason, record.reason_before), record.resume_by is not None
        outcome = await pen.change(trial.node, resume_if_ours, ours, by_person=by_person, reserved=True)
        if outcome.unsure:
            # It may have been done: what Slurm shows in the next round tells.
            return False
        if outcome.result in (Result.WRITTEN, Result.IN_SERVICE):
            await asyncio.to_thread(self.book.step, trial, "run", core.clock())
            await asyncio.to_thread(core.audit, "resumed into reservation", trial.node, trial.reservation)
            return True
        if outcome.before is not None and is_ours(outcome.before, record):
            return await self._ends.out(trial, "drain", f"not resumed: {outcome.detail}")
        if outcome.result in (Result.KEPT, Result.LOST_RACE):
            # Somebody else's reason stands there: the drain is theirs, which is written down where drains are settled.
            return False
        return await self._ends.out(trial, "drain", f"not resumed: {outcome.detail}")

    async def _reserved(self, trial: Trial) -> bool:
        there = await self._core.view.call(self._core.view.backend.reservations)
        mine = there.get(trial.reservation)
        return mine is not None and mine.nodes == (trial.node,)

    async def _run(self, trial: Trial, record: DrainRecord) -> bool:
        core = self._core
        state = await core.view.call(core.view.backend.node, trial.node)
        if state.out_of_service:
            return await self._ends.taken(trial, record, state)
        if not await self._reserved(trial):
            return await self._ends.outside(trial, record)
        assert trial.job_id is not None
        job = await core.view.call(core.view.backend.job, trial.job_id)
        if job is None:
            return await self._ends.out(trial, "drain", f"slurm does not remember job {trial.job_id}")
        if job.state == "COMPLETED":
            order = core.orders.give(core.cluster, trial.node, new_order("verify", deep=True))
            await asyncio.to_thread(self.book.step, trial, "look", core.clock(), order_id=order.id)
            return True
        if job.ended:
            bad = job.state not in BY_OTHERS
            return await self._ends.out(trial, "drain", f"job {trial.job_id} ended {job.state}", bad=bad)
        limit = core.settings.trial_seconds + GRACE_SECONDS
        if abs((core.clock() - trial.step_at).total_seconds()) > limit:
            why = f"job {trial.job_id} {job.state} after {limit:g} s"
            return await self._ends.out(trial, "drain", why, bad=job.running)
        return False

    async def _look(self, trial: Trial, record: DrainRecord) -> bool:
        """The job has gone well; now the agent looks, as root, before the reservation falls."""
        core = self._core
        state = await core.view.call(core.view.backend.node, trial.node)
        if state.out_of_service:
            return await self._ends.taken(trial, record, state)
        reports = await asyncio.to_thread(core.store.recent_reports, core.cluster, trial.node, limit=20)
        found = next((r for r in reports if f"order:{trial.order_id}" in r.notes), None)
        if found is not None:
            if why := not_clean(found, record.checks, core.policy):
                return await self._ends.out(trial, "drain", why, bad=True)
            await asyncio.to_thread(self.book.step, trial, "free", core.clock())
            return True
        if abs((core.clock() - trial.step_at).total_seconds()) > core.settings.verify_timeout:
            return await self._ends.out(trial, "drain", "the agent did not answer the look after the job")
        return False
