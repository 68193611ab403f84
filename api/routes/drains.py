"""Drains: shown with their owner and their exit, previewed, made and ended by people through the controller."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from api.ports import DrainView
from api.routes.deps import ControllerDep, Drainer, StoreDep, Viewer
from api.routes.fleet import NODES_AT_ONCE
from api.routes.shapes import DrainBody, DrainRows, Page, PreviewBody, ResumeBody, answers, body, reply
from slurm.select import written

router = APIRouter(tags=["drains"])


@router.get("/drains", **answers(Page[DrainView]))
def list_drains(controller: ControllerDep, _: Viewer) -> Response:
    """Every drain in force, whoever owns it."""
    return reply(Page(items=controller.drains()))


@router.post("/drains/preview", **answers(DrainRows, takes=PreviewBody))
async def preview(
    controller: ControllerDep, _: Drainer, wanted: Annotated[PreviewBody, Depends(body(PreviewBody))]
) -> Response:
    """What a drain or resume would do, node by node; nothing is changed."""
    written(wanted.nodes, limit=NODES_AT_ONCE)
    return reply(DrainRows(items=await controller.preview(wanted.nodes, wanted.verb)))


@router.post("/drains", **answers(DrainRows, takes=DrainBody))
async def drain(
    controller: ControllerDep, store: StoreDep, who: Drainer, wanted: Annotated[DrainBody, Depends(body(DrainBody))]
) -> Response:
    """Drain for a person; never over a reason of somebody else."""
    written(wanted.nodes, limit=NODES_AT_ONCE)
    await asyncio.to_thread(store.audit, who.name, "drain asked", wanted.nodes, wanted.reason)
    return reply(DrainRows.of(await controller.drain(wanted.nodes, wanted.reason, who.name)))


@router.post("/drains/resume", **answers(DrainRows, takes=ResumeBody))
async def resume(
    controller: ControllerDep, store: StoreDep, who: Drainer, wanted: Annotated[ResumeBody, Depends(body(ResumeBody))]
) -> Response:
    """Give nodes back; verified first, unless a person says otherwise."""
    written(wanted.nodes, limit=NODES_AT_ONCE)
    how = f"verify={wanted.verify} force={wanted.force}"
    await asyncio.to_thread(store.audit, who.name, "resume asked", wanted.nodes, how)
    rows = await controller.resume(wanted.nodes, who.name, verify=wanted.verify, force=wanted.force)
    return reply(DrainRows.of(rows))
