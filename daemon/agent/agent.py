"""The agent of one node: its parts put together, from the first socket to the last report."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from checks.judge.policy import shipped
from checks.runner import Outcome
from checks.wire import CheckReport, Occasion, PollAnswer
from daemon.agent import codes, ground, parts
from daemon.agent.answers import Answer
from daemon.agent.budget import Budget
from daemon.agent.findings import Findings, quiet, settled_at
from daemon.agent.gate import Gate
from daemon.agent.identity import Identity, boot_id
from daemon.agent.judge import Judge, differs
from daemon.agent.leases import LeaseBook
from daemon.agent.loose import Loose
from daemon.agent.nursery import Nursery
from daemon.agent.orders import Orders, named
from daemon.agent.peers import Rights
from daemon.agent.planning import Planning, agent_version
from daemon.agent.prolog import Hooks
from daemon.agent.refusal import Refusal
from daemon.agent.reporting import BATCH_SECONDS, Reporter
from daemon.agent.rest import Rest
from daemon.agent.router import Router
from daemon.agent.schedule import Schedule
from daemon.agent.socket_server import EVERYBODY, HOOK_SUFFIX, ROOT_ONLY, Door, Doors, open_door
from daemon.agent.status import Status, describe, heartbeat
from daemon.agent.unkillable import Unkillable
from daemon.agent.upkeep import Upkeep
from daemon.config import Config, ConfigError
from daemon.lanes.pool import LaneError, LanePool
from daemon.lanes.zygote import Zygote
from daemon.outbox.outbox import Outbox
from daemon.plan import Instance
from daemon.remedy.hands import Hands
from daemon.uplink.uplink import Uplink
from daemon.uplink.worker import Address
from slurm.jobenv import JobEnv

log = logging.getLogger(__name__)
ORDERS_HOLD_POLL = 5.0
LEAVING = 1.0
ANSWERING = 3.0
RESTART = 75
CALM = 5.0
DECIDED = 1.0


class Agent:
    """To be made inside the running loop; ``config_error`` not empty = every job is admitted, loudly."""

    def __init__(self, config: Config, zygote: Zygote, nursery: Nursery, config_error: str = "") -> None:
        self.config = config
        self.started = time.monotonic()
        settings = config.agent
        self.identity = Identity(settings.cluster or "", settings.node or "")
        self.nursery = nursery
        self.pool = LanePool(zygote, state_dir=Path(settings.state), remembers=True)
        self.findings = Findings(settled_at=settled_at(config.host.root))
        self.outbox = Outbox(nursery, Path(settings.state) / "outbox", self.identity.incarnation)
        self.judge = Judge(shipped(), ())
        self.schedule = Schedule(settings.node or "", self.pool, self._outcome)
        self.reporter = Reporter(self.identity, self.outbox, self.findings, self.judge, self._before_report)
        self.upkeep = Upkeep(settings, self.pool, self.outbox, self.findings, self.reporter.missed)
        central = config.central
        address = Address(url=central.url, token_file=central.token_file, ca_file=central.ca_file)
        beat = partial(heartbeat, self, agent_version())
        self.uplink = Uplink(nursery, address, self.identity, self.outbox, beat, self._polled)
        self.leases = LeaseBook(boot_id())
        self.gate = Gate(self.identity, self.uplink, self.reporter.missed)
        self.refusal = Refusal(self.identity, self.uplink, self.leases, self.outbox)
        self.hooks = Hooks(
            self.identity, self.pool, self.schedule, self.findings, self.judge, self.reporter, self.gate,
            self.refusal, self.upkeep.stopped, self._learn,
        )  # fmt: skip
        self.planning = Planning(
            config, self.pool, self.findings, self.judge, self.schedule, self.reporter, self.hooks, config_error
        )
        self.hands = Hands(config.remedy, self.schedule, self.pool, self.judge, self.outbox.put)
        self.orders = Orders(self.schedule, self.findings, self.judge, self.reporter, self.hands)
        self.rest = Rest(self.schedule, self.pool, self.judge, self._rested)
        self.rights = Rights.read(settings.slurm_user, settings.group, own_uid=os.geteuid())
        self.doors = Doors(self.rights.hooks)
        self.door: Door | None = None
        self.hook_door: Door | None = None
        self._ready = asyncio.Event()
        self._leave = asyncio.Event()
        self._exit = 0
        self._answering, self._answered = 0, asyncio.Event()
        self._loose = Loose()
        self._decided = float("-inf")
        self.outbox.on_trouble = lambda: self.reporter.changed((codes.CHECK,))

    async def serve(self) -> int:
        """Run until told to leave; gives the exit status, RESTART when a fresh start is needed."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.leave)
        loop.add_signal_handler(signal.SIGINT, self.leave)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        settings = self.config.agent
        router = Router(
            settings, self.rights, lambda: self.hooks.limits, self._hook, self.status, self.check,
            self.hooks.tasks.answer, Unkillable(self.pool, self.reporter).answer,
        )  # fmt: skip
        self._open(router)
        tasks = [asyncio.ensure_future(work) for work in (self._begin(), self._watch_lanes())]
        await self._leave.wait()
        return await self._end(tasks)

    def _open(self, router: Router) -> None:
        """Take both sockets over; the one for everybody is what makes us the node's agent."""
        path = Path(self.config.agent.socket)
        self.door = open_door(path, mode=EVERYBODY)
        if self.door.predecessor > 0:
            log.error("event=predecessor pid=%d socket=%s", self.door.predecessor, path)
            self.findings.note(codes.SECOND_AGENT, pid=self.door.predecessor)
        self.door.serve(router, self.doors)
        try:
            self.hook_door = open_door(path.with_name(path.name + HOOK_SUFFIX), mode=ROOT_ONLY)
            self.hook_door.serve(router, self.doors)
        except OSError as error:
            log.error("event=no_hook_socket error=%r", str(error))

    def leave(self, status: int = 0) -> None:
        """End in good order."""
        self._exit = status
        self._leave.set()

    async def _begin(self) -> None:
        """Learn the ground, then ask, report and talk to the central service."""
        await asyncio.gather(self.outbox.open(), self.planning.settle())
        self._take_over()
        self._ready.set()
        log.info("event=ready node=%s profile=%s", self.identity.node, self.reporter.facts.profile)
        self._introduce()
        self.reporter.changed((codes.CHECK,))
        await asyncio.gather(self.schedule.run(), self.reporter.run())

    def _take_over(self) -> None:
        """What an earlier agent left on disk: its name, its leases, its refusals."""
        documents = self.outbox.opening.documents
        self.leases.load(documents.get("leases", b""))
        cluster, _, node = documents.get("identity", b"").decode("utf-8", "replace").partition("\n")
        self.identity.cluster = self.identity.cluster or cluster
        self.identity.node = self.identity.node or node
        self.rest.recall(documents.get("rest", b""), self.findings.wall())
        self.hands.recall(documents.get("remedies", b""))
        self.hooks.answers.recall(self.outbox.opening.refusals, self.findings.wall())

    def _introduce(self) -> None:
        """With a name we can report and be asked; without one the first hook tells it."""
        if self.identity.known:
            self.findings.settled(codes.NO_NAME)
            self.uplink.start()
        else:
            self.findings.note(codes.NO_NAME)

    def _learn(self, env: JobEnv) -> None:
        if self.identity.known or not env.node or not env.cluster:
            return
        self.identity.node = self.identity.node or env.node
        self.identity.cluster = self.identity.cluster or env.cluster
        log.info("event=name_learned cluster=%s node=%s", self.identity.cluster, self.identity.node)
        text = f"{self.identity.cluster}\n{self.identity.node}"
        self._loose.spawn(self.outbox.put("identity", text.encode()))
        self._introduce()
        self.planning.replan()

    async def _hook(self, hook: Occasion, body: bytes, asked: Budget) -> Answer:
        if not self._ready.is_set():
            try:
                await asyncio.wait_for(self._ready.wait(), asked.for_refresh)
            except asyncio.TimeoutError:
                self.hooks.too_early(hook, JobEnv.parse(body))
                return Answer(0, "nodevet: agent is still starting, nothing was decided")
        self._answering += 1
        try:
            answer = await self.hooks.answer(hook, body, asked)
        finally:
            self._answering -= 1
            if not self._answering:
                self._answered.set()
        if self.planning.config_error:
            log.error("event=admitted_unjudged hook=%s why=%r", hook, self.planning.config_error)
            return Answer(0, f"nodevet: nothing was judged: {self.judge.quiet}")
        return answer

    def _outcome(self, instance: Instance, outcome: Outcome) -> None:
        changed = self.findings.take(instance, outcome)
        if not changed and time.monotonic() - self._decided < DECIDED and quiet(outcome.findings):
            # Of a burst of answers that all say what they said before, one decision is enough.
            return
        self._decided = time.monotonic()
        decision = self.judge.decide("interval", self.findings.current())
        if changed or differs(decision, self.reporter.decision):
            self.reporter.changed((instance.check.name,))
        if changed and any(f.status == "fail" and f.blame == "node" for f in outcome.findings):
            # Another check may know a better name for it ("gpu_lost", not "7 of 8"): look before it is reported.
            near = [i for i in self.schedule.cheap if i.check.required or i.lane == instance.lane]
            self.schedule.kick(self.findings.older(near, BATCH_SECONDS))

    async def _before_report(self) -> list[str]:
        if self.door is not None and not self.door.ours:
            log.error("event=taken_over socket=%s", self.config.agent.socket)
            self.leave()
        if not self.planning.grounded:
            await self.planning.settle()
        await parts.look(self.pool, self.reporter, bool(self.schedule.held))
        notes = await self.upkeep.take_marks()
        self.upkeep.look()
        if not self.planning.config_error:
            try:
                self.judge.quiet = "the STOP file is there" if await self.upkeep.stopped() else ""
            except LaneError as error:
                log.warning("event=stop_file_not_seen why=%r", str(error))
        self.pool.rest(ground.LANE)
        self.reporter.changed((codes.CHECK,))
        return notes

    async def _polled(self, answer: PollAnswer) -> None:
        if answer.limits is not None:
            self.hooks.limits = answer.limits
        self.rest.take(answer.quiet)
        if self.leases.offer(answer.leases):
            self._loose.spawn(self.outbox.put("leases", self.leases.document))
        if answer.orders:
            work = self._loose.spawn(self.orders.carry_out(answer.orders))
            await asyncio.wait({work}, timeout=ORDERS_HOLD_POLL)

    def _rested(self) -> None:
        """A pause began or ended: a restart, and everybody who asks, shall know."""
        self._loose.spawn(self.outbox.put("rest", self.rest.document))
        self.reporter.changed((codes.CHECK,))

    async def check(self, names: Sequence[str]) -> CheckReport:
        """Ask these checks now; KeyError for a name that is not asked here."""
        await self.orders.fresh(named(self.schedule.periodic, names), "asked on the node's socket")
        status = self.status()
        return CheckReport(
            cluster=status.cluster,
            node=status.node,
            verdict=status.verdict,
            findings=self.findings.current(),
            profile=status.profile,
            simulated=status.simulated,
        )

    def status(self) -> Status:
        """Everything that anybody may know."""
        return describe(self, agent_version())

    def _reload(self) -> None:
        """Take over what may change while we run; the former configuration stays when the new one is not good."""
        try:
            taken = self.planning.reload()
        except ConfigError as error:
            log.error("event=config_not_taken error=%r", str(error))
            self.findings.note(codes.CONFIG_KEPT, error=str(error))
        else:
            self.findings.settled(codes.CONFIG_KEPT)
            if not taken:
                log.warning("event=restart why='configuration changed'")
                self.leave(RESTART)
        self.reporter.changed((codes.CHECK,))

    async def _watch_lanes(self) -> None:
        await self.pool.lost.wait()
        log.error("event=zygote_lost")
        await asyncio.sleep(max(0.0, CALM - (time.monotonic() - self.started)))
        self.leave(RESTART)

    async def _end(self, tasks: Sequence[asyncio.Future[None]]) -> int:
        log.info("event=leaving status=%d", self._exit)
        for door in (self.hook_door, self.door):
            if door is not None:
                door.close()
        if self._answering:
            # Who is being answered gets that answer: whoever comes now is waited for by his own hook.
            self._answered.clear()
            await asyncio.wait({asyncio.ensure_future(self._answered.wait())}, timeout=ANSWERING)
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=LEAVING)
        await self.schedule.close()
        await self.uplink.stop(LEAVING)
        await self.pool.close()
        self.nursery.close()
        return self._exit
