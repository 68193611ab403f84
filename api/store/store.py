"""The store is the one door to what the service remembers; each call is one short transaction."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from sqlalchemy.exc import IntegrityError

from api.store import (
    attribution,
    coverage,
    current,
    fates,
    incidents,
    ingest,
    jobs,
    ledger,
    lemons,
    prune,
    reading,
    retire,
    status,
    timeline,
    tokens,
)
from api.store.database import Database
from api.store.past_views import TimelineItem
from api.store.views import (
    AttributionView,
    AuditView,
    ChangeView,
    FindingView,
    IncidentView,
    JobFilter,
    JobView,
    LemonsView,
    NodeFilter,
    NodeRow,
    NodeView,
    ReportView,
    StartsView,
    StartView,
    Stored,
    TokenView,
)
from checks.judge.policy import Policy, shipped
from checks.wire import Batch, Finding, NodeFacts, PollRequest, Status, Verdict


def utc_now() -> datetime:
    """The present moment, aware."""
    return datetime.now(timezone.utc)


class Store:
    """Sync, safe to use from several threads; times default to now, ``policy`` says how codes are judged."""

    def __init__(self, database: Database, policy: Policy | None = None) -> None:
        self.database = database
        self.policy = policy or shipped()
        # (cluster, node, check): a check that people silenced there opens no incident.
        self.silenced: Callable[[str, str, str], bool] = lambda *_: False

    # What agents say

    def ingest(self, batch: Batch, now: datetime | None = None) -> Stored:
        """Store the reports that are new; repeated ones change nothing."""
        at = now or utc_now()
        try:
            with self.database.begin() as connection:
                return ingest.ingest(connection, batch, at, self.policy, self.silenced)
        except IntegrityError:
            # Another server stored the same batch at the same moment: the second look finds it stored.
            with self.database.begin() as connection:
                return ingest.ingest(connection, batch, at, self.policy, self.silenced)

    def touch(self, request: PollRequest, now: datetime | None = None) -> None:
        """Note a heartbeat."""
        with self.database.begin() as connection:
            status.touch(connection, request, now or utc_now())

    def prune(self, days: float, now: datetime | None = None) -> int:
        """Delete history older than ``days`` days; how many rows."""
        return prune.prune(self.database, now or utc_now(), days)

    def retire(self, now: datetime | None = None) -> int:
        """Drop findings whose checks have not reported for a week, end quiet incidents of jobs; on how many nodes."""
        retire.end_job_incidents(self.database, now or utc_now())
        return retire.retire(self.database, now or utc_now(), self.policy)

    # Nodes and findings

    def node_rows(self) -> list[NodeRow]:
        """Every node in one read, for the controller."""
        with self.database.read() as connection:
            return reading.node_rows(connection)

    def nodes(
        self,
        wanted: NodeFilter | None = None,
        after: tuple[str, str] | None = None,
        limit: int = 100,
        now: datetime | None = None,
    ) -> list[NodeView]:
        """Up to ``limit`` nodes behind ``after``, ordered by (cluster, node)."""
        with self.database.read() as connection:
            return reading.nodes(connection, wanted or NodeFilter(), after, limit, now or utc_now())

    def node(self, cluster: str, node: str, now: datetime | None = None) -> NodeView | None:
        """One node."""
        with self.database.read() as connection:
            row = status.read_status(connection, cluster, node)
            return reading.node_view(row, now or utc_now()) if row else None

    def current_findings(self, cluster: str, node: str) -> tuple[Finding, ...]:
        """The node's current findings, ordered by check, target and code."""
        with self.database.read() as connection:
            return tuple(current.read_current(connection, cluster, node).values())

    def all_current(
        self,
        status: Status | None = None,
        code: str | None = None,
        after: tuple[str, ...] | None = None,
        limit: int | None = None,
    ) -> list[FindingView]:
        """Current findings of all nodes, ordered by (cluster, node, check, target, code)."""
        with self.database.read() as connection:
            return reading.all_current(connection, status, code, after, limit)

    def inventory(self, cluster: str, node: str) -> NodeFacts | None:
        """The hardware recorded for a node, which diskless nodes forget."""
        with self.database.read() as connection:
            return status.read_inventory(connection, cluster, node)

    def all_failing(self, cluster: str) -> dict[str, tuple[Finding, ...]]:
        """Findings that fail, by node, for the controller."""
        with self.database.read() as connection:
            stricter = [code for code, rule in self.policy.codes.items() if rule.status == "fail"]
            return reading.all_failing(connection, cluster, stricter)

    def unanswered(self, cluster: str) -> dict[str, int]:
        """On how many nodes each check is an open problem for want of an answer."""
        with self.database.read() as connection:
            return reading.unanswered(connection, cluster)

    def changes(self, cluster: str, node: str, before: int | None = None, limit: int = 100) -> list[ChangeView]:
        """The node's history, the newest first."""
        with self.database.read() as connection:
            return reading.history(connection, cluster, node, before, limit)

    def timeline(
        self, cluster: str, node: str, since: datetime | None = None, until: datetime | None = None, limit: int = 100
    ) -> list[TimelineItem]:
        """What happened on one node, the newest first."""
        with self.database.read() as connection:
            return timeline.timeline(connection, cluster, node, since, until, limit)

    def verdict_counts(self, now: datetime | None = None) -> dict[tuple[str, Verdict], int]:
        """Nodes by (cluster, verdict)."""
        with self.database.read() as connection:
            return reading.verdict_counts(connection, now or utc_now())

    # Reports and jobs

    def report(self, number: int) -> ReportView | None:
        """One whole report."""
        with self.database.read() as connection:
            return jobs.report(connection, number)

    def reports_of_node(self, cluster: str, node: str, before: int | None = None, limit: int = 100) -> list[ReportView]:
        """Reports of one node without their findings, the newest first."""
        with self.database.read() as connection:
            return jobs.reports_of_node(connection, cluster, node, before, limit)

    def recent_reports(self, cluster: str, node: str, *, limit: int = 20) -> list[ReportView]:
        """Whole reports of one node, the newest first."""
        with self.database.read() as connection:
            return jobs.reports_of_node(connection, cluster, node, None, limit, whole=True)

    def reports_of_job(
        self, cluster: str, job_id: int, after: int | None = None, limit: int = 1000
    ) -> list[ReportView]:
        """Whole reports of all attempts of one job, in the order of arrival."""
        with self.database.read() as connection:
            return jobs.reports_of_job(connection, cluster, job_id, after, limit)

    def jobs(
        self, before: int | None = None, limit: int = 100, wanted: JobFilter | None = None
    ) -> list[tuple[int, JobView]]:
        """Job attempts with their place in the order, the newest first."""
        with self.database.read() as connection:
            return jobs.jobs(connection, before, limit, wanted)

    def starts_of_job(self, cluster: str, job_id: int) -> list[StartView]:
        """Every start of one job on a node, in the order of arrival."""
        with self.database.read() as connection:
            return fates.starts_of_job(connection, cluster, job_id)

    def began(self, cluster: str, *, job_id: int | None = None, node: str | None = None) -> list[AttributionView]:
        """Faults that began during a job, or on a node during any, the newest first."""
        with self.database.read() as connection:
            return attribution.read(connection, cluster, job_id=job_id, node=node)

    def starts(self, seconds: float, now: datetime | None = None) -> StartsView:
        """How the starts of the last ``seconds`` were answered."""
        at = now or utc_now()
        with self.database.read() as connection:
            return coverage.counted(connection, at - timedelta(seconds=seconds), at)

    def lemons(self, seconds: float, now: datetime | None = None) -> LemonsView:
        """Nodes worse than their peers within the last ``seconds``."""
        with self.database.read() as connection:
            return lemons.lemons(connection, (now or utc_now()) - timedelta(seconds=seconds))

    # Incidents and audit

    def open_incident(
        self,
        cluster: str,
        node: str,
        code: str,
        target: str,
        message: str,
        kind: str,
        now: datetime | None = None,
    ) -> int:
        """Open a problem or refresh it while it is open; its number. ``kind``: why it exists, one word."""
        key = (cluster, node, code, target)
        with self.database.begin() as connection:
            return incidents.open_incident(connection, now or utc_now(), key, message=message, kind=kind)

    def close_incident(
        self, cluster: str, node: str, code: str, target: str, why: str = "", now: datetime | None = None
    ) -> None:
        """Close a problem where it is open."""
        with self.database.begin() as connection:
            incidents.close_incident(connection, now or utc_now(), (cluster, node, code, target), why=why)

    def incidents(
        self,
        is_open: bool | None = None,
        node: tuple[str, str] | None = None,
        before: int | None = None,
        limit: int = 100,
    ) -> list[IncidentView]:
        """Incidents, the newest first."""
        with self.database.read() as connection:
            return ledger.read_incidents(connection, is_open=is_open, node=node, before=before, limit=limit)

    def incident(self, number: int) -> IncidentView | None:
        """One incident."""
        with self.database.read() as connection:
            return ledger.read_incident(connection, number)

    def acknowledge(self, number: int, actor: str, note: str, now: datetime | None = None) -> bool:
        """Note who looks after an incident; False where there is none."""
        with self.database.begin() as connection:
            return ledger.acknowledge(connection, now or utc_now(), number, actor, note)

    def open_incidents(self) -> int:
        """How many incidents are open."""
        with self.database.read() as connection:
            return ledger.count_open(connection)

    def audit(self, actor: str, action: str, subject: str, detail: str = "", now: datetime | None = None) -> None:
        """Append to the audit."""
        with self.database.begin() as connection:
            ledger.write_audit(connection, now or utc_now(), actor, action, subject, detail)

    def audit_log(self, before: int | None = None, limit: int = 100) -> list[AuditView]:
        """The audit, the newest first."""
        with self.database.read() as connection:
            return ledger.read_audit(connection, before, limit)

    # Tokens

    def create_token(self, view: TokenView, now: datetime | None = None) -> tuple[TokenView, str]:
        """Store a token and give it with its secret, which is shown this once."""
        with self.database.begin() as connection:
            return tokens.create(connection, now or utc_now(), view)

    def find_token(self, secret: str, now: datetime | None = None) -> TokenView | None:
        """The good token with this secret."""
        with self.database.read() as connection:
            return tokens.find(connection, secret, now or utc_now())

    def tokens(self, after: int | None = None, limit: int = 100) -> list[TokenView]:
        """Tokens in the order of their making."""
        with self.database.read() as connection:
            return tokens.listed(connection, after, limit)

    def revoke_token(self, number: int, now: datetime | None = None) -> bool:
        """End a token; whether it was good before."""
        with self.database.begin() as connection:
            return tokens.revoke(connection, now or utc_now(), number)
