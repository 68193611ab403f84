"""The only writer of automatic drains: reads Slurm, judges, authorizes, drains, verifies and resumes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Literal

from api.controller import people, rest, risk
from api.controller.assembly import assembled
from api.controller.automatic import consider
from api.controller.core import ControllerSettings, Memory
from api.controller.desk import Desk
from api.controller.fates import Fates
from api.controller.forgotten import Ghosts
from api.controller.gate import Gates
from api.controller.graver import follow
from api.controller.heart import beat
from api.controller.late import PrologErrors, requeue_late
from api.controller.leases import Leases
from api.controller.lookouts import Lookouts
from api.controller.orders import new_order
from api.controller.permits import Permits
from api.controller.probation import Probation
from api.controller.reconcile import landing, reconcile
from api.controller.rights import DrainRight
from api.controller.service import Service
from api.controller.shown import drain_views
from api.controller.slurm_trouble import CODES, text_of
from api.controller.trial import Trials
from api.controller.verify import verify
from api.ports import DrainRow, DrainView, OrderKind, PauseView, SilenceView
from api.remedy.remedies import Remedies
from api.remedy.settings import RemedySettings
from api.store.database import Database
from checks.judge.guard import GuardLimits
from checks.judge.policy import Policy, shipped
from checks.wire import GateAnswer, GateRequest, Lease, Limits, Order, PermitAnswer, PermitRequest, Quiet
from slurm.backend import Backend
from slurm.errors import SlurmError
from slurm.state import NodeState

log = logging.getLogger(__name__)
MOVING_SECONDS = 1.0
PUT_OFF_SECONDS = 1.0


class Controller:
    """Implements api.ports.ControllerPort for one cluster."""

    def __init__(
        self,
        settings: ControllerSettings,
        database: Database,
        store: Memory,
        backend: Backend,
        *,
        policy: Policy | None = None,
        guard: GuardLimits | None = None,
        alone: bool | None = None,
        remedy: RemedySettings | None = None,
    ) -> None:
        alone = database.is_sqlite if alone is None else alone
        self.core = assembled(settings, database, store, backend, policy or shipped(), guard or GuardLimits(), alone)
        self.leases = Leases(self.core)
        self.permits = Permits(self.core, self.leases)
        self.desk = Desk(self.core)
        self.service = Service(self.core, database)
        self.trials = self.core.trials = Trials(self.core, database)
        self.remedy = Remedies(self.core, database, remedy or RemedySettings())
        self.probation = Probation(self.core)
        self.errors = PrologErrors(self.core)
        self.right = DrainRight(self.core)
        self.ghosts = Ghosts(self.core)
        self.fates = Fates(self.core, database)
        self.lookouts = Lookouts(self.core, database)
        self.gates = Gates(self.core.orders.live, self._running)
        self._wake = asyncio.Event()
        self._read_at = float("-inf")
        self._begun = False

    # -- what agents ask

    async def permit(self, request: PermitRequest) -> PermitAnswer:
        """Grant or deny the right to refuse once."""
        answer = await self.permits.permit(request)
        self._wake.set()
        return answer

    async def gate(self, request: GateRequest) -> GateAnswer:
        """Take a member's answer and, where it holds, wait for the others."""
        return await self.gates.answer(request)

    async def orders(self, cluster: str, node: str, wait: float) -> tuple[Order, ...]:
        """The node's open orders, waiting up to ``wait`` seconds for the first."""
        if cluster == self.core.cluster:
            self.leases.seen(node)
        return await self.core.orders.take(cluster, node, wait)

    async def order(
        self, cluster: str, node: str, kind: OrderKind, *, actor: str, checks: tuple[str, ...] = ()
    ) -> Order:
        """Put an order down for a node and wake its poll."""
        order = self.core.orders.give(cluster, node, new_order(kind, checks))
        await asyncio.to_thread(self.core.audit, f"order {kind}", node, order.id, actor=actor)
        return order

    def done(self, order_ids: tuple[str, ...]) -> None:
        """Forget orders that an agent has carried out."""
        self.core.orders.done(order_ids)

    def leases_for(self, cluster: str, node: str) -> tuple[Lease, ...]:
        """Leases to hand to a node in a heartbeat's reply."""
        return self.leases.of(node) if cluster == self.core.cluster else ()

    def holds(self, node: str, permits: tuple[str, ...]) -> None:
        """A node says which leases it could use now."""
        self.leases.holds(node, permits)

    # -- what people ask

    def limits(self) -> Limits:
        """The running Slurm's limits as last read."""
        return self.core.view.wire_limits()

    def slurm_state(self, node: str) -> NodeState | None:
        """What Slurm holds about a node as last read."""
        return self.core.view.states.get(node)

    def slurm_states(self) -> Mapping[str, NodeState]:
        """All nodes as last read."""
        return self.core.view.states

    async def preview(self, nodes: str, verb: Literal["drain", "resume"]) -> list[DrainRow]:
        """What ``verb`` would do to each node of a host list, changing nothing."""
        return await people.preview(self.core, nodes, verb)

    async def drain(self, nodes: str, reason: str, actor: str) -> list[DrainRow]:
        """Drain for a person."""
        return await people.drain(self.core, nodes, reason, actor)

    async def resume(self, nodes: str, actor: str, verify: bool = True, force: bool = False) -> list[DrainRow]:
        """Give nodes back for a person, after verification unless told otherwise."""
        rows = await people.resume(self.core, nodes, actor, verify=verify, force=force)
        self._wake.set()
        return rows

    async def pause(self, nodes: str, seconds: float, reason: str, actor: str) -> list[DrainRow]:
        """Keep hands off these nodes for a time."""
        return await rest.pause(self.core, nodes, seconds, reason, actor)

    async def unpause(self, nodes: str, actor: str) -> list[DrainRow]:
        """End pauses, and have the nodes verified."""
        return await rest.unpause(self.core, nodes, actor)

    def pauses(self) -> list[PauseView]:
        """Every pause in force."""
        return self.core.quiet.pauses(self.core.clock())

    async def silence(
        self, *, check: str, nodes: str, partition: str, seconds: float, reason: str, actor: str
    ) -> list[SilenceView]:
        """Have findings lead to nothing for a time."""
        return await rest.silence(self.core, check, nodes, partition, seconds, reason, actor)

    async def unsilence(self, number: int, actor: str) -> bool:
        """End a silence; whether there was one."""
        return await rest.unsilence(self.core, number, actor)

    def silences(self) -> list[SilenceView]:
        """Every silence in force."""
        return self.core.quiet.silences(self.core.clock())

    def quiet(self, cluster: str, node: str) -> Quiet | None:
        """What people asked to rest on a node, for the reply to its poll."""
        if cluster != self.core.cluster:
            return None
        state = self.core.view.states.get(node)
        return self.core.quiet.told(node, state.partitions if state else (), self.core.clock())

    def silenced(self, cluster: str, node: str, check: str) -> bool:
        """Whether this check's findings on this node lead to nothing; asked by the store before it opens incidents."""
        return cluster == self.core.cluster and bool(self.core.silenced(node) & {check, "*"})

    def drains(self) -> list[DrainView]:
        """Every drain in force, whoever owns it."""
        return drain_views(self.core)

    def metrics(self) -> Mapping[str, float]:
        """Counters and gauges for /metrics."""
        return {
            **self.core.gauges(),
            "gate_opened_total": float(self.gates.opened),
            "gate_expired_total": float(self.gates.expired),
            "gate_absent_total": float(self.gates.absent),
            "gate_left_total": float(self.gates.left),
            "probation_nodes": float(len(self.probation.nodes)),
        }

    # -- the loop

    def on_report(self, cluster: str, node: str) -> None:
        """A node's findings have changed: look at it soon."""
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled; a step that fails is an incident, never the end of the loop."""
        await beat(self.core, lambda: self.tick(), self._wake, self._until_look)

    def _until_look(self) -> float:
        return min(self._until_read(), PUT_OFF_SECONDS) if self.core.pace.put_off else self._until_read()

    def _until_read(self) -> float:
        return max(0.05, self._read_at + self.core.settings.poll - time.monotonic())

    async def tick(self) -> None:
        """One round. Without a fresh answer of Slurm nothing is drained or resumed."""
        if not await asyncio.to_thread(self.core.fence.lead):
            await self._stand_by()
            return
        if not self._begun:
            self.core.notices.remember(await asyncio.to_thread(partial(self.core.store.incidents, True, limit=100_000)))
            await self.service.begin()
            self._begun = True
        if await self._read_is_due():
            self._read_at = time.monotonic()
            await rest.keep_time(self.core)
            await risk.keep_time(self.core)
            if not await self.core.view.refresh():
                await asyncio.to_thread(self._slurm_trouble, self.core.view.trouble)
                return
            await asyncio.to_thread(self._slurm_trouble, "")
        if self.core.view.error:
            return
        well = True
        steps: tuple[Callable[[], Coroutine[Any, Any, object]], ...] = (
            partial(reconcile, self.core),
            self.ghosts.look,
            self.service.arrive,
            partial(consider, self.core),
            partial(follow, self.core),
            partial(verify, self.core),
            self.trials.keep,
            self.remedy.look,
            self.probation.watch,
            partial(requeue_late, self.core, self.permits),
            self.errors.explain,
            self.right.prove,
            self.fates.look,
            *self.lookouts.steps,
            self.leases.hand_out,
            self.service.follow,
        )
        for step in steps:
            well &= await self.core.spare("", step())
        if well:
            await asyncio.to_thread(self._recovered)

    async def _stand_by(self) -> None:
        """Another server leads: look at Slurm for the pages, and take over with fresh eyes once it is gone."""
        self._begun = False
        if time.monotonic() - self._read_at >= self.core.settings.poll:
            self._read_at = time.monotonic()
            self.service.stand_by()
            await self.core.view.refresh()

    def _slurm_trouble(self, code: str) -> None:
        """One incident for what is wrong with Slurm now, and an end to those of other kinds."""
        if code:
            self.core.incident("", code, text_of(code, self.core.view.error))
        holding = {("", code)}
        self.core.notices.keep(lambda key, _: key[0] == "" and key[1] in CODES, holding, "slurm answers")

    def _recovered(self) -> None:
        """A whole round went well: what failed before is over."""
        self.core.notices.keep(lambda key, _: key == ("", "controller_error"), (), "a round went well")

    async def _read_is_due(self) -> bool:
        passed = time.monotonic() - self._read_at
        return passed >= self.core.settings.poll or (
            passed >= MOVING_SECONDS and await asyncio.to_thread(landing, self.core)
        )

    async def _running(self, job_id: int) -> bool | None:
        """Whether Slurm still counts the job as running; None when it does not say."""
        try:
            job = await self.core.view.call(self.core.view.backend.job, job_id, timeout=5.0)
        except (SlurmError, TimeoutError):
            return None
        return None if job is None else job.running
