"""Incidents: open problems, who looks after them, and what they wrote."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from api.problems import Absent
from api.routes.deps import Acker, Cursor, Limit, RowId, StoreDep, Viewer
from api.routes.shapes import AckBody, Page, answers, body, paged, reply, row_cursor
from api.store.views import IncidentView

router = APIRouter(tags=["incidents"])


@router.get("/incidents", **answers(Page[IncidentView]))
def list_incidents(
    store: StoreDep,
    _: Viewer,
    is_open: Annotated[bool | None, Query(alias="open")] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Response:
    """Incidents, the newest first."""
    return paged(store.incidents(is_open, None, row_cursor(cursor), limit), limit, lambda i: i.id)


@router.get("/incidents/{number}", **answers(IncidentView))
def one_incident(number: RowId, store: StoreDep, _: Viewer) -> Response:
    """One incident with its notes."""
    if found := store.incident(number):
        return reply(found)
    raise Absent(f"no incident {number}")


@router.post("/incidents/{number}/ack", **answers(IncidentView, takes=AckBody))
def acknowledge(
    number: RowId, store: StoreDep, who: Acker, ack: Annotated[AckBody, Depends(body(AckBody))]
) -> Response:
    """Take an incident on; it stays open until the problem is gone."""
    if not store.acknowledge(number, who.name, ack.note):
        raise Absent(f"no incident {number}")
    store.audit(who.name, "acknowledge", f"incident {number}", ack.note)
    return reply(store.incident(number))
