"""Remedies for drained nodes: what was done, what waits and why, and one asked for by a person."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from api.problems import Absent
from api.remedy.port import RemediesView, RemedyRow
from api.routes.deps import ControllerDep, Drainer, RowId, Viewer
from api.routes.shapes import Name, answers, body, reply

router = APIRouter(tags=["remedies"])
Pci = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")]
Act = Annotated[str, msgspec.Meta(pattern=r"^(reset-gpu|reboot|run:[A-Za-z0-9][A-Za-z0-9._-]{0,63})$")]


class RemedyBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Mend a drained node: ``gpus`` are PCI ids, none of them means all; ``dry_run``: only say what would be done."""

    node: Name
    action: Act
    gpus: Annotated[tuple[Pci, ...], msgspec.Meta(max_length=64)] = ()
    dry_run: bool = False


@router.get("/remedies", **answers(RemediesView))
def list_remedies(
    controller: ControllerDep,
    _: Viewer,
    node: Annotated[str | None, Query(max_length=128)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> Response:
    """What was done to drained nodes, the newest first, what waits and why, and what is switched on."""
    return reply(controller.remedy.listing(node, limit=limit))


@router.post("/remedies", **answers(RemedyRow, takes=RemedyBody))
async def ask(
    controller: ControllerDep, who: Drainer, wanted: Annotated[RemedyBody, Depends(body(RemedyBody))]
) -> Response:
    """Have a remedy carried out on a node of ours that is drained to the end; refused where it is switched off."""
    made = await controller.remedy.ask(wanted.node, wanted.action, wanted.gpus, who.name, dry_run=wanted.dry_run)
    return reply(made)


@router.delete("/remedies/{number}", status_code=204)
async def cancel(controller: ControllerDep, who: Drainer, number: RowId) -> Response:
    """Take back a remedy that has not begun."""
    if not await controller.remedy.cancel(number, who.name):
        raise Absent(f"remedy {number} is not planned, or has begun")
    return Response(status_code=204)
