"""Automatic drains: decide on fresh findings, ask the guard, write the intent down, and only then write to Slurm."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from api.controller.belief import again, believed
from api.controller.core import NAMED, Core
from api.controller.drain_record import NEVER_TAKEN
from api.controller.fleet import fleet, ruled
from api.controller.identity import gpus_of
from api.controller.opening import watch
from api.controller.pace import DRAIN
from api.controller.pen import Pen
from api.controller.records import DrainRecord, NewDrain, Said, new_token
from api.controller.strikes import struck
from api.controller.words import without_accepted
from checks.judge.context import Context
from checks.judge.decide import decide
from checks.judge.guard import Ruling, Tally
from checks.wire import Decision, Finding, JobAttempt, Occasion
from slurm.errors import SlurmError
from slurm.ownership import Outcome, Result, drain_if_free
from slurm.reason import compose

log = logging.getLogger(__name__)
AUTOMATIC = "ours-automatic"
# What is said about a node lasts as long as its fault or its drain does; a report may come after what it is about.
SETTLE_SECONDS = 120.0
_WHILE_FAILING = ("permit_denied", "drain_failed")
_WHILE_DRAINED = ("verify_silent", "resume_failed")


@dataclass(frozen=True, slots=True)
class Drained:
    """Whether the node is out of service for our cause now, and what to tell people."""

    done: bool
    why: str
    record: DrainRecord | None = None
    unsure: bool = False


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a node is to be drained, and for whom."""

    decision: Decision
    checks: tuple[str, ...] = ()
    job: JobAttempt | None = None

    @property
    def code(self) -> str:
        """The code that the reason names."""
        return self.decision.codes[0]


def judge_now(core: Core, findings: Sequence[Finding], now: datetime, node: str = "") -> Decision:
    """The interval decision on stored findings; with a ``node`` what people silenced or accepted there is left out."""
    heard = without_accepted(core.words, node, findings, now) if node else findings
    return decide(timed(heard), core.policy, context_of(core, heard, "interval", now, node))


def timed(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Those whose time is known: the others may be of last week."""
    return tuple(f for f in findings if f.observed_at is not None)


def context_of(core: Core, findings: Sequence[Finding], occasion: Occasion, now: datetime, node: str = "") -> Context:
    """A context in which what is older than ``fresh`` leads nowhere."""
    stale = {f.check: core.settings.fresh for f in findings}
    silenced = core.silenced(node) if node else frozenset()
    return Context(occasion=occasion, now=now, stale_after=stale, silenced=silenced)


async def consider(core: Core) -> None:
    """Look at every node with a failing finding and drain those that the policy, the guard and Slurm allow."""
    if not core.settings.automation:
        return
    failing = await asyncio.to_thread(core.store.all_failing, core.cluster)
    opened = await asyncio.to_thread(core.records.open_drains, core.cluster)
    look = Look(core, failing, await asyncio.to_thread(_tally, core, failing))
    for node in sorted(failing):
        state = core.view.states.get(node)
        if state is None or state.out_of_service or state.hands_off or core.paused(node) or node in opened:
            continue
        await core.spare(node, look.at(node))
    if sum(code == "guard_closed" for _, code in look.denied) > NAMED:
        look.denied.add(("", "guard_closed"))
    await asyncio.to_thread(core.notices.keep, _about_faults, look.denied, "no longer so")
    holding = {(n, c) for n in failing for c in _WHILE_FAILING} | {(n, c) for n in opened for c in _WHILE_DRAINED}
    holding |= {("", c) for c in _WHILE_FAILING if len(failing) > NAMED}
    about = partial(_named, (*_WHILE_FAILING, *_WHILE_DRAINED))
    await asyncio.to_thread(core.notices.keep, about, holding, "no longer so", settle=SETTLE_SECONDS)
    await asyncio.to_thread(watch, core)
    core.pace.put_off = look.waiting


def _tally(core: Core, failing: Mapping[str, tuple[Finding, ...]] | None = None) -> Tally:
    return Tally(fleet(core, failing), core.guard)


def _named(codes: tuple[str, ...], key: tuple[str, str], _: str) -> bool:
    return key[1] in codes


def _about_faults(key: tuple[str, str], kind: str) -> bool:
    return kind == "correlated" or key[1] in ("guard_closed", "resumed_while_faulty")


@dataclass(slots=True)
class Look:
    """One round over the failing nodes; ``tally`` spares a count of the fleet for each that is denied anyway.

    ``correlated``: codes that too many nodes show in this round, which is so for each of them.
    """

    core: Core
    failing: Mapping[str, tuple[Finding, ...]]
    tally: Tally
    denied: set[tuple[str, str]] = field(default_factory=set)
    correlated: set[str] = field(default_factory=set)
    waiting: bool = False

    async def at(self, node: str) -> None:
        """Drain this node if everybody allows it."""
        core = self.core
        decision = judge_now(core, of_this_boot(core, node, self.failing[node]), core.clock(), node)
        if decision.wanted != "drain":
            return
        if decision.codes[0] in self.correlated:
            core.count("guard_denied_total")
            if core.notices.said(node, "resumed_while_faulty"):
                self.denied.add((node, "resumed_while_faulty"))
            return
        if await asyncio.to_thread(believed, core, node, decision):
            self.denied.add((node, "resumed_while_faulty"))
            return
        ruling = ruled(core, self.tally, node, decision.codes[0])
        if not ruling.allowed:
            if ruling.kind == "correlated":
                self.correlated.add(decision.codes[0])
                self.denied.add(("", many(decision.codes[0])))
            else:
                self.denied.add((node, "guard_closed"))
            await asyncio.to_thread(denied, core, node, decision, ruling)
            return
        findings = await asyncio.to_thread(core.store.current_findings, core.cluster, node)
        decision = judge_now(core, of_this_boot(core, node, findings), core.clock(), node)
        if decision.wanted != "drain":
            return
        if not core.pace.take(DRAIN):
            self.waiting = True
            return
        await drain_node(core, node, decision, findings)
        self.tally = await asyncio.to_thread(_tally, core, self.failing)


def of_this_boot(core: Core, node: str, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """What was seen before the node came up as it is now, or before hands left it, may be what they were there for.

    Once the look that is owed since then has been answered, what it did not see anew counts again.
    """
    state = core.view.states.get(node)
    times = (state.boot_time if state is not None else None, core.wave.first(node))
    up = max((t for t in times if t is not None), default=None)
    return tuple(f for f in timed(findings) if up is None or (f.observed_at is not None and f.observed_at >= up))


async def drain_node(
    core: Core,
    node: str,
    decision: Decision,
    findings: Sequence[Finding],
    *,
    job: JobAttempt | None = None,
    wanted: Callable[[], bool] = lambda: True,
) -> Drained:
    """Authorize and drain one node, as long as it is still ``wanted`` when its turn comes."""
    cause = Cause(decision, checks_of(decision, findings), job)
    async with core.node_locks[node]:
        pen = await core.pen()
        async with core.lock:
            if paused := core.paused(node):
                return Drained(False, paused)
            if node in core.tried:
                # The job that meets the fault is our own, and its end decides about the node.
                return Drained(False, "node is being tried by a job of ours")
            if not wanted():
                return Drained(False, "the answer was due before the drain began")
            ruling = ruled(core, await asyncio.to_thread(_tally, core), node, cause.code)
            record = await asyncio.to_thread(_intend, core, node, cause, pen) if ruling.allowed else None
        if record is None:
            await asyncio.to_thread(denied, core, node, decision, ruling)
            return Drained(False, f"guard: {ruling.why}")
        await asyncio.to_thread(core.solved, node, "guard_closed", "guard allowed")
        try:
            outcome = await pen.change(node, drain_if_free, record.reason)
        except (SlurmError, TimeoutError) as error:
            return await asyncio.to_thread(_unsure, core, record, str(error))
        if outcome.unsure:
            return await asyncio.to_thread(_unsure, core, record, outcome.detail)
        return await asyncio.to_thread(_written, core, record, outcome)


def detail_of(code: str, decision: Decision) -> str:
    """The decision's line without the code it begins with, since the reason puts the code first itself."""
    return decision.reason.removeprefix(code).strip() or "see nodevet node"


def checks_of(decision: Decision, findings: Sequence[Finding]) -> tuple[str, ...]:
    """The checks whose findings led to the decision: without their word the node does not go back."""
    return tuple(sorted({f.check for f in findings if f.code in decision.codes and f.check}))


def _intend(core: Core, node: str, cause: Cause, pen: Pen) -> DrainRecord:
    token, codes = new_token(), cause.decision.codes
    strikes = struck(core, node, codes)
    detail = again(core, node, codes) + detail_of(cause.code, cause.decision)
    return core.records.intend(
        NewDrain(
            cluster=core.cluster,
            node=node,
            owner=AUTOMATIC,
            actor="controller",
            codes=codes,
            checks=cause.checks,
            token=token,
            reason=compose(cause.code, detail, token=token),
            boot_id=core.boot_of(node),
            step="person" if strikes.held else core.way_back(cause.code),
            gpus=gpus_of(core, node),
            held=strikes.held,
            weight=strikes.weight,
            job=cause.job.key if cause.job else None,
        ),
        core.clock(),
        epoch=pen.epoch,
    )


def many(code: str) -> str:
    """The code of the one incident for many nodes that fail alike."""
    return f"many_{code}"[:64]


def denied(core: Core, node: str, decision: Decision, ruling: Ruling) -> None:
    """A closed guard is loud: one incident for the fleet where many fail alike, else one for the node."""
    core.count("guard_denied_total")
    code = decision.codes[0]
    if ruling.kind == "correlated":
        core.incident("", many(code), ruling.why, kind="correlated")
    else:
        core.incident_of_many(node, "guard_closed", f"{decision.reason}; not drained: {ruling.why}")
    log.info("drain denied node=%s code=%s kind=%s why=%s", node, code, ruling.kind, ruling.why)


def _written(core: Core, record: DrainRecord, outcome: Outcome) -> Drained:
    now = core.clock()
    if outcome.result is Result.WRITTEN:
        said = Said("drain", f"{record.reason}; window {outcome.window_ms} ms")
        why = f"written in {outcome.window_ms} ms"
        record = core.records.written(record, now, why, said=said, boot=core.view.booted)
        core.count("drains_total")
        core.solved(record.node, "drain_failed", "drained")
        log.warning("drained node=%s reason=%r", record.node, record.reason)
        return Drained(True, "drained", record)
    # Slurm may take even what it refused to answer for, much later: then the drain is ours after all.
    why = f"{NEVER_TAKEN}: {outcome.detail}" if outcome.result is Result.FAILED else outcome.detail
    said = Said("drain not written", f"{record.reason}; {outcome.result.value}: {outcome.detail}")
    record = core.records.change(record, now, state="failed", why=why, said=said)
    if outcome.result in (Result.ALREADY_OURS, Result.KEPT):
        # No job starts there any more, by whoever's hand: as good as our own drain, and left as it is.
        return Drained(True, outcome.detail, record)
    core.view.suspect()
    core.incident(record.node, "drain_failed", outcome.detail)
    return Drained(False, outcome.detail, record)


def _unsure(core: Core, record: DrainRecord, why: str) -> Drained:
    """Slurm did not answer: the write may still land, so the intent stays open for reconcile() to settle."""
    core.view.suspect()
    core.incident(record.node, "drain_failed", why)
    core.audit("drain unsure", record.node, f"{record.reason}; {why}")
    log.error("drain unsure node=%s why=%s", record.node, why)
    return Drained(False, why, record, unsure=True)
