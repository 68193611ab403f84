"""What travels between check, agent, central service and command line, in one definition."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Literal

import msgspec

from checks.facts import NodeFacts as NodeFacts
from checks.facts import Part as Part

Status = Literal["ok", "warn", "fail", "unknown", "skipped"]
Blame = Literal["node", "fabric", "shared", "config", "job", "self"]
Verdict = Literal["healthy", "degraded", "faulty", "unknown"]
Occasion = Literal["prolog", "epilog", "interval", "health", "manual", "burn-in"]
# "drain" beside a hook means: admit this job, drain the node afterwards.
Action = Literal["admit", "wait", "refuse", "drain"]
Scalar = str | int | float | bool | None

PROTOCOL = 1
MESSAGE_LIMIT = 512
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


def clean(text: object, limit: int = MESSAGE_LIMIT) -> str:
    """Return ``text`` without control or direction characters, at most ``limit`` characters long."""
    flat = _CONTROL.sub(" ", str(text)).strip()
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One check's outcome for one target; the runner stamps ``check`` and ``observed_at``.

    ``seen`` counts consecutive rounds with the same code on the same target, ``since`` is the first of them.
    """

    check: str = ""
    target: str
    status: Status
    code: str
    blame: Blame | None = None
    message: str = ""
    evidence: dict[str, Scalar] = {}
    observed_at: datetime | None = None
    since: datetime | None = None
    seen: int = 1

    @property
    def key(self) -> tuple[str, str, str]:
        """Identity of the problem inside its node."""
        return (self.check, self.target, self.code)


class JobAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One try of one Slurm job on this node; requeues keep the id and raise the count (None on 20.11)."""

    job_id: int
    restart_count: int | None = None
    uid: int | None = None
    partition: str | None = None
    nodes: int | None = None
    nodelist: str = ""
    gpu_minors: tuple[int, ...] | None = None
    exclusive: bool | None = None

    @property
    def key(self) -> str:
        """Identity of the attempt inside its cluster, as used in URLs and file names."""
        return f"{self.job_id}.{'x' if self.restart_count is None else self.restart_count}"


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """What decide() wanted and, once the guard has spoken, what was allowed.

    ``shadow_codes`` failed by rules in shadow, and ``shadow_wanted`` is what these would have wanted; nothing follows.
    """

    verdict: Verdict
    wanted: Action
    allowed: Action | None = None
    codes: tuple[str, ...] = ()
    reason: str = ""
    user_message: str = ""
    permit: str | None = None
    why: str = ""
    policy_version: str = ""
    shadow_codes: tuple[str, ...] = ()
    shadow_wanted: Action | None = None


class Unvetted(msgspec.Struct, frozen=True, kw_only=True):
    """A job that began on this node without a whole answer of ours; ``cause`` is one word of ours."""

    job_id: int
    restart_count: int | None = None
    cause: str
    at: datetime


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The findings and decision of one occasion.

    For every check it names, a report holds *all* its current findings, so a reader replaces by check.
    """

    cluster: str
    node: str
    incarnation: str
    sequence: int
    occasion: Occasion
    started_at: datetime
    seconds: float
    findings: tuple[Finding, ...] = ()
    decision: Decision | None = None
    job: JobAttempt | None = None
    boot_id: str = ""
    facts: NodeFacts | None = None
    notes: tuple[str, ...] = ()
    unvetted: tuple[Unvetted, ...] = ()


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """Reports of one agent incarnation in rising sequence; repeated until acknowledged. POST /api/v1/ingest."""

    cluster: str
    node: str
    incarnation: str
    reports: tuple[Report, ...]
    protocol: int = PROTOCOL


class BatchAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Sequences up to and including ``accepted`` are stored; ``refused`` were malformed and must not be repeated."""

    accepted: int
    refused: tuple[int, ...] = ()


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The running Slurm's time limits in seconds as the server last read them; None = not read.

    ``restart_after``: after a refused prolog a job waits this long; ``nohold``: it is not held then. ``gpus_told``: the
    hooks of every node of a job are told its GPUs.
    """

    budget: float | None = None
    gate_possible: bool = False
    gate_why_not: str = "slurm configuration not read yet"
    health_check_interval: float | None = None
    restart_after: float | None = None
    nohold: bool | None = None
    gpus_told: bool = True
    read_at: datetime | None = None


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to refuse once without asking, for a closed list of codes, until ``expires_at``."""

    permit: str
    codes: tuple[str, ...]
    expires_at: datetime


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """Something the server asks of an agent; it rides in the reply to the agent's open poll.

    ``deep``: for a burn-in, on a node that nobody needs: checks that need the device are asked too.
    ``reset-gpu`` and ``run`` disturb the node and are given only to an agent that says that it may: ``gpus`` are PCI
    ids (none: all), ``name`` and ``document`` are the site executable and what it reads, ``limit`` is its time.
    """

    id: str
    kind: Literal["check", "verify", "stop-testing", "release", "reset-gpu", "run"]
    checks: tuple[str, ...] = ()
    deep: bool = False
    gpus: tuple[str, ...] = ()
    name: str = ""
    document: str = ""
    limit: float = 60.0


Outcome = Literal["running", "done", "busy", "refused", "failed", "hung", "lost"]


class Remedied(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an order that disturbs the node.

    ``busy``: somebody holds the GPU, which says nothing about it. ``hung``: the program does not end and is not killed,
    since it is in the driver. ``lost``: the agent ended meanwhile, so nobody knows; it is never tried again.
    """

    order: str
    outcome: Outcome
    text: str = ""


class PollRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's long poll and heartbeat in one. POST /api/v1/poll.

    ``remedies``: what its configuration lets the service ask for, ``remedied`` what became of it; ``leases``: usable.
    """

    cluster: str
    node: str
    incarnation: str
    boot_id: str = ""
    agent_version: str = ""
    policy_version: str = ""
    done_orders: tuple[str, ...] = ()
    wedged_lanes: tuple[str, ...] = ()
    outbox_waiting: int = 0
    leases: tuple[str, ...] | None = None
    wait: float = 30.0
    protocol: int = PROTOCOL
    remedies: tuple[str, ...] = ()
    remedied: tuple[Remedied, ...] = ()


class Quiet(msgspec.Struct, frozen=True, kw_only=True):
    """What people asked to rest on one node: a pause and silenced checks (``*``: all).

    ``paused``: seconds that the pause still lasts, 0 = none; counted from the answer, so that clocks need not agree.
    """

    paused: float = 0.0
    until: datetime | None = None
    reason: str = ""
    actor: str = ""
    silenced: tuple[str, ...] = ()


class PollAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Orders, limits and leases for one agent; ``quiet`` None takes back nothing that was said before."""

    orders: tuple[Order, ...] = ()
    limits: Limits | None = None
    leases: tuple[Lease, ...] = ()
    quiet: Quiet | None = None


class PermitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A prolog that wants to refuse asks once; repeatable by (job, hook). POST /api/v1/permits."""

    cluster: str
    node: str
    incarnation: str
    job: JobAttempt
    decision: Decision
    findings: tuple[Finding, ...]
    lease: str | None = None
    wait: float = 3.0


class PermitAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """``granted`` is true only after the node has been drained by us in Slurm, or under a valid lease."""

    granted: bool
    permit: str | None = None
    drained: bool = False
    why: str = ""


class GateRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One member's answer to its job's gate; the holder waits on the reply. POST /api/v1/gate."""

    cluster: str
    node: str
    job: JobAttempt
    members: tuple[str, ...] = ()
    answer: Literal["admit", "refuse", "pending"] = "admit"
    hold: bool = False
    wait: float = 5.0


class GateAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What the gate knew when it opened or the wait ended."""

    complete: bool
    refused: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    left_running: bool = False
    why: str = ""


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """What ``nodevet check --json`` prints: the published document of one node's state."""

    cluster: str
    node: str
    verdict: Verdict
    findings: tuple[Finding, ...]
    profile: str = "generic"
    simulated: bool = False
