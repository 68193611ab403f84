"""What the store answers with: frozen values that go out as JSON unchanged."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

from api.store.lemon_views import ExcludedNode, FailingNode
from api.store.past_views import PastFilter
from checks.wire import Decision, Finding, JobAttempt, NodeFacts, Occasion, Report, Verdict

Freshness = Literal["fresh", "stale", "none"]


class NodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One node as the controller needs it, from one bulk read."""

    cluster: str
    node: str
    verdict: Verdict
    last_contact: datetime
    last_report: datetime | None
    boot_id: str
    incarnation: str
    simulated: bool
    facts: NodeFacts | None


class NodeView(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the list of nodes; a node without contact for ten minutes is ``stale`` and unknown."""

    cluster: str
    node: str
    verdict: Verdict
    data: Freshness
    summary: str
    wanted: str
    fail: int
    warn: int
    unknown: int
    ok: int
    profile: str
    gpu_model: str
    boot_id: str
    agent_version: str
    policy_version: str
    simulated: bool
    wedged_lanes: tuple[str, ...]
    outbox_waiting: int
    first_seen: datetime
    last_contact: datetime
    last_report: datetime | None
    slurm_state: str | None = None
    reason: str | None = None
    paused_until: datetime | None = None
    paused_why: str = ""
    risk: str = ""
    service: str = ""


class FindingView(Finding, frozen=True, kw_only=True):
    """A finding with the node that it is about."""

    cluster: str
    node: str


class ChangeView(msgspec.Struct, frozen=True, kw_only=True):
    """One change of status or code; ``old_status`` is None at first sight."""

    id: int
    check: str
    target: str
    old_status: str | None
    old_code: str | None
    status: str
    code: str
    blame: str | None
    message: str
    observed_at: datetime | None
    at: datetime


class ReportView(msgspec.Struct, frozen=True, kw_only=True):
    """A stored report with its number; findings and notes are left out of lists."""

    id: int
    cluster: str
    node: str
    occasion: Occasion
    started_at: datetime
    seconds: float
    received_at: datetime
    boot_id: str
    job: JobAttempt | None
    decision: Decision | None
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """One job attempt and what was answered to it.

    ``unvetted``: on how many nodes it began without a whole answer; ``began``: faults that began during it;
    ``fate``: what Slurm did after a refusal, empty while that is not known.
    """

    cluster: str
    job_id: int
    attempt: str
    nodes: tuple[str, ...]
    first_report: datetime
    last_report: datetime
    refused: int
    reports: int
    unvetted: int = 0
    began: int = 0
    fate: str = ""


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which attempts a list shows: reported since a moment, and refused or what Slurm did then."""

    only: Literal["refused", "held", "cancelled"] | None = None
    since: datetime | None = None


class AttributionView(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that began while a job ran on the node; a coincidence in time, no proof.

    ``shared``: another job had a part of the node then.
    """

    node: str
    job_id: int
    attempt: str
    uid: int | None
    gpu_minors: tuple[int, ...] | None
    check: str
    code: str
    target: str
    status: str
    blame: str | None
    message: str
    shared: bool
    began_at: datetime


class StartView(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a job on a node and how it was answered: vetted, refused, or the cause why not."""

    cluster: str
    node: str
    job_id: int
    attempt: str
    outcome: str
    detail: str
    at: datetime
    ended_at: datetime | None = None
    fate: str = ""
    fate_detail: str = ""
    fate_until: datetime | None = None


class StartsView(msgspec.Struct, frozen=True, kw_only=True):
    """Starts of jobs on nodes within a time; ``protected``: per cent of them that were vetted or refused.

    ``causes`` counts the others; ``newest`` are some of them. ``protected`` is None where no job started.
    """

    since: datetime
    starts: int
    vetted: int
    refused: int
    unvetted: int
    jobs_unvetted: int
    protected: float | None
    causes: dict[str, int]
    newest: tuple[StartView, ...] = ()


class Lemon(msgspec.Struct, frozen=True, kw_only=True):
    """A node with more troubles than its peers, for as many jobs; ``chance``: how often luck alone would do this.

    ``episodes``: troubles at least 30 minutes apart; ``peers_per_1000``: theirs for each 1,000 starts of jobs.
    """

    cluster: str
    node: str
    profile: str
    starts: int
    episodes: int
    per_1000: float
    peers_per_1000: float
    chance: float
    drains: int
    refusals: int
    incidents: int
    began: int


class LemonsView(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that stand out by their troubles, by failing jobs, and by users who exclude them; and why none may.

    ``not_told``: what is not known, and why.
    """

    since: datetime
    nodes: int
    starts: int
    items: tuple[Lemon, ...]
    why_none: str = ""
    failing: tuple[FailingNode, ...] = ()
    excluded: tuple[ExcludedNode, ...] = ()
    not_told: tuple[str, ...] = ()


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What a person wrote beside an incident."""

    at: datetime
    actor: str
    note: str


class IncidentView(msgspec.Struct, frozen=True, kw_only=True):
    """One problem from first sight to close."""

    id: int
    cluster: str
    node: str
    code: str
    target: str
    check: str
    kind: str
    message: str
    first_seen: datetime
    last_seen: datetime
    times_opened: int
    closed_at: datetime | None
    closed_why: str
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    notes: tuple[Note, ...] = ()


class AuditView(msgspec.Struct, frozen=True, kw_only=True):
    """Who did or was refused what, when."""

    id: int
    at: datetime
    actor: str
    action: str
    subject: str
    detail: str


class TokenView(msgspec.Struct, frozen=True, kw_only=True):
    """A token without its secret; ``prefix`` is how people tell it from others."""

    id: int
    prefix: str
    role: str
    cluster: str | None
    node: str | None
    scopes: tuple[str, ...]
    label: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    revoked_at: datetime | None


class NodeFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which nodes a list shows; ``names`` of None means all."""

    verdict: Verdict | None = None
    text: str = ""
    cluster: str | None = None
    names: frozenset[str] | None = None
    past: PastFilter | None = None


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """What an ingest did, for those who act on it."""

    accepted: int
    stored: tuple[Report, ...] = ()
    repeated: int = 0
