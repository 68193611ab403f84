"""Reports arrive at least once and in order within an incarnation, and each is stored once."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import msgspec
from sqlalchemy import Connection, insert, select, update

from api.store.attribution import attribute
from api.store.current import Current, changed, read_current, replace, write_changes, write_current
from api.store.incidents import follow
from api.store.job_faults import crashed
from api.store.parts import note_parts
from api.store.past import note
from api.store.starts import record
from api.store.status import facts_of, from_findings, from_report, read_status, record_inventory, write_status
from api.store.tables import agents, reports
from api.store.views import Stored
from checks.judge.policy import Policy
from checks.wire import Batch, Report, Verdict

# (cluster, node, check): whether its findings open no incident there
Silenced = Callable[[str, str, str], bool]
_KEPT = frozenset({"prolog", "epilog", "manual", "burn-in"})


def ingest(
    connection: Connection, batch: Batch, now: datetime, policy: Policy, silenced: Silenced = lambda *_: False
) -> Stored:
    """Store the reports of ``batch`` that are new; they must be in bounds and speak for the batch's node."""
    last = _last_sequence(connection, batch, now)
    fresh = _in_order(batch, last)
    if fresh:
        mine = (agents.c.cluster == batch.cluster, agents.c.node == batch.node)
        connection.execute(
            update(agents)
            .where(*mine, agents.c.incarnation == batch.incarnation)
            .values(last_sequence=fresh[-1].sequence, last_seen=now)
        )
        kept = [_row(r, now) for r in fresh if _is_kept(r)]
        if kept:
            connection.execute(insert(reports), kept)
        booted = _apply(connection, batch, fresh, now, policy, silenced)
        record(connection, fresh)
        for report in booted:
            crashed(connection, report, now)
        attribute(connection, fresh, now)
    accepted = fresh[-1].sequence if fresh else last
    return Stored(accepted=accepted, stored=tuple(fresh), repeated=len(batch.reports) - len(fresh))


def _last_sequence(connection: Connection, batch: Batch, now: datetime) -> int:
    """The highest sequence stored of this incarnation, -1 for one that is new."""
    key = {"cluster": batch.cluster, "node": batch.node, "incarnation": batch.incarnation}
    where = [agents.c[name] == value for name, value in key.items()]
    row = connection.execute(select(agents.c.last_sequence).where(*where)).first()
    if row is not None:
        return int(row.last_sequence)
    connection.execute(insert(agents).values(**key, last_sequence=-1, first_seen=now, last_seen=now))
    return -1


def _in_order(batch: Batch, last: int) -> list[Report]:
    new = {r.sequence: r for r in reversed(batch.reports) if r.sequence > last}
    return [new[sequence] for sequence in sorted(new)]


def _is_kept(report: Report) -> bool:
    """Rounds between jobs change the status only, unless they wanted something or answer an order."""
    wanted = report.decision.wanted if report.decision else "admit"
    ordered = any(note.startswith("order:") for note in report.notes)
    return report.occasion in _KEPT or wanted in ("drain", "refuse") or ordered


def _apply(
    connection: Connection, batch: Batch, fresh: list[Report], now: datetime, policy: Policy, silenced: Silenced
) -> list[Report]:
    """Bring status, current findings, history and incidents up to the last of ``fresh``; gives what told of a boot."""
    status = read_status(connection, batch.cluster, batch.node)
    incarnation = status.incarnation if status else ""
    newest = status.last_report if status else None
    timely = [r for r in fresh if incarnation in ("", r.incarnation) or newest is None or r.started_at > newest]
    if not timely:
        write_status(connection, batch.cluster, batch.node, now, {})
        return []
    note_parts(connection, facts_of(status.facts) if status else None, timely, now)
    booted = note(connection, (status.boot_id, facts_of(status.facts)) if status else None, timely, now)
    before = read_current(connection, batch.cluster, batch.node)
    after, named = _replay(connection, before, timely, now)
    write_current(connection, batch.cluster, batch.node, named, after)
    reported: Verdict = status.reported_verdict if status else "unknown"
    values: dict[str, object] = {}
    for report in timely:
        values |= from_report(report, report.decision)
        reported = report.decision.verdict if report.decision else reported
    values |= from_findings(after, policy, reported)
    write_status(connection, batch.cluster, batch.node, now, values)
    rest = frozenset(check for check in named if silenced(batch.cluster, batch.node, check))
    follow(connection, now, (batch.cluster, batch.node), named, after, unanswered=reported == "unknown", silenced=rest)
    return booted


def _replay(
    connection: Connection, current: Current, timely: list[Report], now: datetime
) -> tuple[Current, tuple[str, ...]]:
    """Lay the reports over ``current`` one after the other, so that history misses no change in between."""
    named: set[str] = set()
    history: list[dict[str, object]] = []
    for report in timely:
        following = replace(current, report.findings)
        history += changed(report.cluster, report.node, current, following, now)
        named |= {f.check for f in report.findings} | {f.check for k, f in current.items() if k not in following}
        current = following
        record_inventory(connection, report, now)
    write_changes(connection, history)
    return current, tuple(sorted(named))


def _row(report: Report, now: datetime) -> dict[str, object]:
    job, decision = report.job, report.decision
    return {
        "cluster": report.cluster,
        "node": report.node,
        "incarnation": report.incarnation,
        "sequence": report.sequence,
        "occasion": report.occasion,
        "started_at": report.started_at,
        "seconds": report.seconds,
        "received_at": now,
        "boot_id": report.boot_id,
        "job_id": job.job_id if job else None,
        "attempt": job.key if job else None,
        "verdict": decision.verdict if decision else None,
        "wanted": decision.wanted if decision else None,
        "allowed": decision.allowed if decision else None,
        "job": msgspec.json.encode(job).decode() if job else None,
        "decision": msgspec.json.encode(decision).decode() if decision else None,
        "findings": msgspec.json.encode(report.findings).decode(),
        "notes": msgspec.json.encode(report.notes).decode(),
    }
