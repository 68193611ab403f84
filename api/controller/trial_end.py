"""A trial ends with the reservation gone: first the node is where it belongs, then the job, then the reservation."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from api.controller.burn_in import done_by
from api.controller.core import NAMED, Core
from api.controller.drain_record import DrainRecord
from api.controller.trial_book import Step, Trial, TrialBook
from api.controller.verify import resumed
from slurm.errors import NotFound, SlurmError
from slurm.ownership import Result, drain_if_free
from slurm.reason import Owner, owner_of, parse
from slurm.state import NodeState

log = logging.getLogger(__name__)
# Slurm takes its flags off a node some seconds after the reservation is gone.
FLAGS_SECONDS = 60.0
NOT_DONE = "trial_not_done"


def is_ours(state: NodeState, record: DrainRecord) -> bool:
    """Whether the node is out of service under just this drain."""
    ours = parse(state.active_reason.text) if state.active_reason else None
    return ours is not None and ours.token == record.token


def down_by_slurm(state: NodeState) -> bool:
    """Whether Slurm alone holds the node down, so that it may come back without anybody's word."""
    return state.base == "DOWN" and state.flags.isdisjoint({"DRAIN", "FAIL"}) and owner_of(state) is Owner.SLURM


class Endings:
    """The ways out of a trial; each is safe to begin again."""

    def __init__(self, core: Core, book: TrialBook) -> None:
        self._core, self._book = core, book

    async def out(self, trial: Trial, step: Step, why: str, *, bad: bool = False) -> bool:
        """Turn back: ``drain`` where the node may have been resumed, ``tidy`` where it was not. ``bad``: it failed."""
        log.warning("trial turns back node=%s step=%s why=%s", trial.node, trial.step, why)
        said = {"why": why, "bad": "yes" if bad else ""}
        await asyncio.to_thread(self._book.step, trial, step, self._core.clock(), **said)
        return True

    async def taken(self, trial: Trial, record: DrainRecord, state: NodeState) -> bool:
        """Slurm or a person took it out meanwhile; our own reason there means that a crash hid our second drain.

        A node that died under its trial waits in its reservation: it may be in service again once it answers.
        """
        if is_ours(state, record):
            return await self.out(trial, "drain", f"taken out: {state}")
        if down_by_slurm(state):
            text = f"node is {state} during its trial: drained again as soon as it answers"
            await asyncio.to_thread(self._core.incident, trial.node, "trial_stuck", text)
        return False

    async def drain(self, trial: Trial, record: DrainRecord) -> bool:
        """The node is drained again, for what it was drained for, before anything else is taken away."""
        core = self._core
        if is_ours(await core.view.call(core.view.backend.node, trial.node), record):
            # Drained before a crash, perhaps under a person's own words.
            await asyncio.to_thread(self._book.step, trial, "tidy", core.clock())
            return True
        pen = await core.pen()
        outcome = await pen.change(trial.node, drain_if_free, record.reason, reserved=True)
        if outcome.result in (Result.WRITTEN, Result.ALREADY_OURS):
            await asyncio.to_thread(self._book.step, trial, "tidy", self._core.clock())
            await asyncio.to_thread(self._core.audit, "drained again after trial", trial.node, trial.why)
            return True
        if outcome.result is not Result.KEPT:
            await asyncio.to_thread(self._core.incident, trial.node, "trial_stuck", f"drain: {outcome.detail}")
        return False

    async def tidy(self, trial: Trial, record: DrainRecord) -> bool:
        """The node is drained: the job and the reservation go, and the drain goes on."""
        core = self._core
        if not await self._cleared(trial):
            return False
        held = f"failed its trial: {trial.why}" if trial.bad else record.held
        step = "person" if trial.bad else record.step
        back = partial(core.records.change, record, core.clock(), state="drained", rounds=0, order_id=None)
        why = partial(back, held=held, step=step, order_at=core.clock(), why=trial.why)
        await asyncio.to_thread(partial(why, clean_since=None, resume_by=None))
        await self._over(trial, "trial failed" if trial.bad else "trial not done", trial.why)
        return True

    async def free(self, trial: Trial, record: DrainRecord) -> bool:
        """The node has proved itself: with the reservation it loses the last thing that kept jobs away."""
        core = self._core
        if not await self._cleared(trial):
            return False
        state = await core.view.call(core.view.backend.node, trial.node)
        waited = abs((core.clock() - trial.step_at).total_seconds())
        if not state.flags.isdisjoint({"MAINT", "RESERVED"}) and waited < FLAGS_SECONDS:
            return False
        why = f"{done_by(core, record)} and job {trial.job_id}"
        await asyncio.to_thread(partial(resumed, core, record, why, actor=record.resume_by or "controller"))
        await self._over(trial, "trial passed", why)
        return True

    async def outside(self, trial: Trial, record: DrainRecord) -> bool:
        """Somebody took the reservation away while the node was in it: they have given the node back."""
        core = self._core
        why = f"reservation {trial.reservation} was deleted by somebody else"
        await asyncio.to_thread(core.records.change, record, core.clock(), state="resumed_outside", why=why)
        await asyncio.to_thread(core.audit, "drain resumed outside", trial.node, why)
        await self.abandon(trial)
        return True

    async def abandon(self, trial: Trial) -> None:
        """The drain is not ours any more: what is ours goes, the node stays as it is."""
        try:
            if await self._cleared(trial):
                await self._over(trial, "trial abandoned", "the drain is over or somebody else's")
        except (SlurmError, TimeoutError) as error:
            await asyncio.to_thread(self._core.incident, trial.node, "trial_stuck", str(error))

    async def _cleared(self, trial: Trial) -> bool:
        """Whether job and reservation are gone; a reservation goes only once no job refers to it."""
        core, backend = self._core, self._core.view.backend
        pen = await core.pen()
        if trial.job_id is not None:
            job = await core.view.call(backend.job, trial.job_id)
            if job is not None and not job.ended:
                await pen.tell(trial.node, f"job {trial.job_id} cancelled", backend.cancel, trial.job_id)
                return False
        try:
            what = f"reservation {trial.reservation} deleted"
            await pen.tell(trial.node, what, backend.delete_reservation, trial.reservation)
        except NotFound:
            return True
        except SlurmError as error:
            hint = f"see squeue --reservation={trial.reservation}; scancel what is there"
            text = f"reservation {trial.reservation} is not deleted: {error}; {hint}"
            await asyncio.to_thread(core.incident, trial.node, "trial_stuck", text)
            return False
        return True

    async def _over(self, trial: Trial, action: str, why: str) -> None:
        core = self._core
        core.orders.done([trial.order_id] if trial.order_id else [])
        await asyncio.to_thread(self._book.step, trial, "over", core.clock())
        await asyncio.to_thread(core.audit, action, trial.node, why)
        if action == "trial not done":
            text = f"{why}; it stays drained, is verified again and then tried again"
            await asyncio.to_thread(core.incident_of_many, trial.node, NOT_DONE, text)
        elif core.notices.said(trial.node, NOT_DONE):
            await asyncio.to_thread(core.solved, trial.node, NOT_DONE, action)
        if core.notices.said(trial.node, "trial_stuck"):
            await asyncio.to_thread(core.solved, trial.node, "trial_stuck", action)

    def still_not_done(self) -> None:
        """What could not be tried is said until it was tried, or its drain is over; reads and writes the database."""
        core = self._core
        holding = {(node, NOT_DONE) for node in core.records.open_drains(core.cluster)}
        if len(holding) > NAMED:
            holding.add(("", NOT_DONE))
        core.notices.keep(lambda key, _: key[1] == NOT_DONE, holding, "no longer so")
