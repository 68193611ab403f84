"""What people did to lists of nodes in one go: shown with what stood there before, and undone where nothing moved."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from api.operation import OperationView
from api.problems import Absent, Problem
from api.routes.deps import ControllerDep, Cursor, Drainer, Limit, RowId, Viewer, Window
from api.routes.shapes import DrainRows, Page, UndoBody, answers, body, paged, reply, row_cursor
from api.store.store import utc_now

router = APIRouter(tags=["operations"])


@router.get("/operations", **answers(Page[OperationView]))
def list_operations(
    controller: ControllerDep,
    _: Viewer,
    since: Window = None,
    actor: Annotated[str | None, Query(max_length=128)] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Response:
    """Drains, resumes and undos of lists of nodes, the newest first; ``since``: seconds back from now."""
    begin = None if since is None else utc_now() - timedelta(seconds=since)
    rows = controller.desk.operations(begin, actor, row_cursor(cursor), limit)
    return paged(rows, limit, lambda o: o.id)


@router.get("/operations/{number}", **answers(OperationView))
def one_operation(number: RowId, controller: ControllerDep, _: Viewer) -> Response:
    """One operation node by node."""
    if found := controller.desk.operation(number):
        return reply(found)
    raise Absent(f"no operation {number}")


@router.post("/operations/undo", **answers(DrainRows, takes=UndoBody))
async def undo(
    controller: ControllerDep, who: Drainer, wanted: Annotated[UndoBody, Depends(body(UndoBody))]
) -> Response:
    """Undo an operation where nodes still are exactly as it left them."""
    try:
        rows = await controller.desk.undo(wanted.operation, who.name, dry_run=wanted.dry_run)
    except ValueError as error:
        raise Problem(str(error), status=409) from error
    return reply(DrainRows.of(rows))
