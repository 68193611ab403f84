"""History is kept for a while and then goes, a few rows at a time so that no agent waits behind it."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Table, delete, select

from api.controller.service_tables import service_moves, trials
from api.store.database import Database
from api.store.job_tables import attributions, exclusions, starts
from api.store.past_tables import node_events
from api.store.tables import agents, changes, incident_notes, incidents, job_facts, reports

CHUNK = 500


def prune(database: Database, now: datetime, days: float) -> int:
    """Delete what is older than ``days`` days; how many rows. Audit, open incidents and current state stay."""
    before = now - timedelta(days=days)
    old = incidents.c.closed_at.is_not(None) & (incidents.c.closed_at < before)
    notes = incident_notes.c.incident_id.in_(select(incidents.c.id).where(old))
    gone = _delete(database, reports, reports.c.received_at < before)
    gone += _delete(database, changes, changes.c.at < before)
    gone += _delete(database, starts, starts.c.at < before)
    gone += _delete(database, attributions, attributions.c.at < before)
    gone += _delete(database, node_events, node_events.c.at < before)
    gone += _delete(database, service_moves, service_moves.c.at < before)
    gone += _delete(database, trials, trials.c.ended_at < before)
    gone += _delete(database, incident_notes, notes)
    gone += _delete(database, incidents, old)
    with database.begin() as connection:
        gone += connection.execute(delete(exclusions).where(exclusions.c.seen_at < before)).rowcount
        gone += connection.execute(delete(job_facts).where(job_facts.c.seen_at < before)).rowcount
        # An incarnation may still repeat its last batch for as long as its node is down, so these stay twice as long.
        gone += connection.execute(delete(agents).where(agents.c.last_seen < now - timedelta(days=2 * days))).rowcount
    return gone


def _delete(database: Database, table: Table, where: ColumnElement[bool]) -> int:
    gone = 0
    while True:
        with database.begin() as connection:
            few = select(table.c.id).where(where).limit(CHUNK)
            rows = connection.execute(delete(table).where(table.c.id.in_(few))).rowcount
        gone += rows
        if rows < CHUNK:
            return gone
