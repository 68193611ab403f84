"""The audit only grows, and incidents are read and acknowledged beside it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select, update

from api.store.tables import audit, incident_notes, incidents
from api.store.views import AuditView, IncidentView, Note
from slurm.reason import one_line


def write_audit(connection: Connection, at: datetime, actor: str, action: str, subject: str, detail: str) -> None:
    """Append one line."""
    connection.execute(
        insert(audit).values(
            at=at,
            actor=one_line(actor, 128),
            action=one_line(action, 64),
            subject=one_line(subject, 256),
            detail=one_line(detail, 2000),
        )
    )


def read_audit(connection: Connection, before: int | None, limit: int) -> list[AuditView]:
    """Lines, the newest first."""
    query = select(audit).order_by(audit.c.id.desc()).limit(limit)
    if before is not None:
        query = query.where(audit.c.id < before)
    return [
        AuditView(id=r.id, at=r.at, actor=r.actor, action=r.action, subject=r.subject, detail=r.detail)
        for r in connection.execute(query)
    ]


def read_incidents(
    connection: Connection, *, is_open: bool | None, node: tuple[str, str] | None, before: int | None, limit: int
) -> list[IncidentView]:
    """Incidents, the newest first."""
    query = select(incidents).order_by(incidents.c.id.desc()).limit(limit)
    if is_open is not None:
        closed = incidents.c.closed_at.is_(None)
        query = query.where(closed if is_open else ~closed)
    if node is not None:
        query = query.where(incidents.c.cluster == node[0], incidents.c.node == node[1])
    if before is not None:
        query = query.where(incidents.c.id < before)
    rows = connection.execute(query).all()
    notes = _notes(connection, [r.id for r in rows])
    return [_incident(r, notes.get(r.id, ())) for r in rows]


def read_incident(connection: Connection, number: int) -> IncidentView | None:
    """One incident with its notes."""
    row = connection.execute(select(incidents).where(incidents.c.id == number)).first()
    return _incident(row, _notes(connection, [number]).get(number, ())) if row else None


def acknowledge(connection: Connection, at: datetime, number: int, actor: str, note: str) -> bool:
    """Note who looks after an incident; False where there is none of this number."""
    done = connection.execute(
        update(incidents)
        .where(incidents.c.id == number)
        .values(acknowledged_at=func.coalesce(incidents.c.acknowledged_at, at), acknowledged_by=one_line(actor, 128))
    )
    if done.rowcount and note:
        row = {"incident_id": number, "at": at, "actor": one_line(actor, 128), "note": one_line(note, 2000)}
        connection.execute(insert(incident_notes).values(**row))
    return done.rowcount > 0


def count_open(connection: Connection) -> int:
    """Incidents open now."""
    query = select(func.count()).select_from(incidents).where(incidents.c.closed_at.is_(None))
    return int(connection.execute(query).scalar_one())


def _notes(connection: Connection, numbers: Sequence[int]) -> dict[int, tuple[Note, ...]]:
    notes: dict[int, tuple[Note, ...]] = {}
    query = select(incident_notes).where(incident_notes.c.incident_id.in_(numbers)).order_by(incident_notes.c.id)
    for row in connection.execute(query):
        note = Note(at=row.at, actor=row.actor, note=row.note)
        notes[row.incident_id] = (*notes.get(row.incident_id, ()), note)
    return notes


def _incident(row: Row[Any], notes: tuple[Note, ...]) -> IncidentView:
    return IncidentView(
        id=row.id,
        cluster=row.cluster,
        node=row.node,
        code=row.code,
        target=row.target,
        check=row.check_name,
        kind=row.kind,
        message=row.message,
        first_seen=row.first_seen,
        last_seen=row.last_seen,
        times_opened=row.times_opened,
        closed_at=row.closed_at,
        closed_why=row.closed_why,
        acknowledged_at=row.acknowledged_at,
        acknowledged_by=row.acknowledged_by,
        notes=notes,
    )
