"""What the agent tells everybody about itself and its node, bounded in size."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import msgspec

from checks.wire import Finding, Limits, PollRequest, Verdict

if TYPE_CHECKING:
    from daemon.agent.agent import Agent

_WEIGHT = {"fail": 0, "warn": 1, "unknown": 2, "ok": 3, "skipped": 4}
FINDINGS_SHOWN = 200
CHECKS_SHOWN = 400


class CheckAge(msgspec.Struct, frozen=True, kw_only=True):
    """How old the answer of one instance is; seconds, None = never answered."""

    name: str
    lane: str
    interval: float
    age: float | None
    stale: bool


class OutboxState(msgspec.Struct, frozen=True, kw_only=True):
    """What waits to be sent; ``hung`` is for how many seconds the disk has owed an answer."""

    waiting: int = 0
    lost: int = 0
    hung: float = 0.0
    trouble: str = ""


class UplinkState(msgspec.Struct, frozen=True, kw_only=True):
    """How the central service answers: ``connected`` or the kind of failure, and since how many seconds."""

    state: str = "not configured"
    since: float = 0.0
    last_error: str = ""
    replaced: int = 0
    leases: int = 0
    limits: Limits | None = None


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """GET /v1/status: a CheckReport with the agent's own state beside it."""

    cluster: str
    node: str
    verdict: Verdict
    findings: tuple[Finding, ...]
    profile: str = "generic"
    simulated: bool = False
    decision: str = ""
    reason: str = ""
    paused: str = ""
    silenced: tuple[str, ...] = ()
    more_findings: int = 0
    checks: tuple[CheckAge, ...] = ()
    wedged_lanes: tuple[str, ...] = ()
    outbox: OutboxState = OutboxState()
    uplink: UplinkState = UplinkState()
    hooks: dict[str, int] = {}
    gate: dict[str, int] = {}
    marks: int = 0
    config_error: str = ""
    policy_version: str = ""
    agent_version: str = ""
    incarnation: str = ""
    pid: int = 0
    uptime: float = 0.0
    turned_away: int = 0


def describe(agent: Agent, agent_version: str) -> Status:
    """The agent's state as it is now, worst findings first."""
    findings = sorted(agent.findings.current(), key=lambda f: _WEIGHT[f.status])
    decision = agent.judge.decide("interval", findings)
    facts, hooks, gate = agent.reporter.facts, agent.hooks, agent.gate
    return Status(
        cluster=agent.identity.cluster,
        node=agent.identity.node,
        verdict=decision.verdict,
        findings=tuple(findings[:FINDINGS_SHOWN]),
        more_findings=max(0, len(findings) - FINDINGS_SHOWN),
        profile=facts.profile,
        simulated=agent.config.host.simulated,
        decision=decision.wanted,
        reason=decision.reason or decision.why,
        paused=agent.rest.paused,
        silenced=tuple(sorted(agent.judge.silenced)),
        checks=_ages(agent),
        wedged_lanes=agent.pool.wedged(),
        outbox=OutboxState(
            waiting=agent.outbox.waiting,
            lost=agent.outbox.lost,
            hung=round(agent.outbox.hung, 3),
            trouble=agent.outbox.trouble,
        ),
        uplink=_uplink(agent),
        hooks=msgspec.to_builtins(hooks.counts),
        gate=msgspec.to_builtins(gate.counts),
        marks=agent.upkeep.marks,
        config_error=agent.planning.config_error,
        policy_version=agent.judge.policy.version,
        agent_version=agent_version,
        incarnation=agent.identity.incarnation,
        pid=os.getpid(),
        uptime=round(time.monotonic() - agent.started, 3),
        turned_away=agent.doors.turned_away,
    )


def _ages(agent: Agent) -> tuple[CheckAge, ...]:
    found = []
    for instance in agent.schedule.periodic[:CHECKS_SHOWN]:
        age = agent.findings.age(instance)
        stale = age is None or age > instance.stale_after
        shown = None if age is None else round(age, 3)
        name, lane = instance.name, instance.lane
        found.append(CheckAge(name=name, lane=lane, interval=instance.interval, age=shown, stale=stale))
    return tuple(found)


def _uplink(agent: Agent) -> UplinkState:
    uplink = agent.uplink
    return UplinkState(
        state=uplink.state,
        since=round(time.monotonic() - uplink.since, 3),
        last_error=uplink.last_error[:300],
        replaced=uplink.replaced,
        leases=agent.leases.good,
        limits=agent.hooks.limits,
    )


def heartbeat(agent: Agent, version: str) -> PollRequest:
    """What the agent says of itself with each poll."""
    return PollRequest(
        cluster=agent.identity.cluster,
        node=agent.identity.node,
        incarnation=agent.identity.incarnation,
        boot_id=agent.reporter.facts.boot_id,
        agent_version=version,
        policy_version=agent.judge.policy.version,
        done_orders=agent.orders.done,
        wedged_lanes=agent.pool.wedged(),
        outbox_waiting=agent.outbox.waiting,
        leases=agent.leases.permits,
        wait=agent.config.central.poll_wait,
        remedies=agent.hands.allowed,
        remedied=agent.hands.told,
    )
