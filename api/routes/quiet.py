"""Pauses and silences: what people asked to rest, until when, and how it ends."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends
from starlette.responses import Response

from api.ports import PauseView, SilenceView
from api.problems import Absent, Unacceptable
from api.routes.deps import ControllerDep, Drainer, RowId, Viewer
from api.routes.fleet import NODES_AT_ONCE
from api.routes.shapes import DrainRows, Hostlist, Name, Page, answers, body, reply
from slurm.hostlist import expand

router = APIRouter(tags=["quiet"])
LONGEST = 31 * 86400.0
Seconds = Annotated[float, msgspec.Meta(ge=1.0, le=LONGEST)]
Why = Annotated[str, msgspec.Meta(min_length=1, max_length=160)]


class PauseBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keep hands off a host list for some seconds."""

    nodes: Hostlist
    seconds: Seconds
    reason: Why


class ReadyBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """End the pauses of a host list and verify it."""

    nodes: Hostlist


class SilenceBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Have a check's findings, on nodes or in a partition, lead to nothing for some seconds; one must be named."""

    check: Name | None = None
    nodes: Hostlist | None = None
    partition: Name | None = None
    seconds: Seconds
    reason: Why


@router.get("/pauses", **answers(Page[PauseView]))
def list_pauses(controller: ControllerDep, _: Viewer) -> Response:
    """Every node that Nodevet keeps its hands off, and until when."""
    return reply(Page(items=controller.pauses()))


@router.post("/pauses", **answers(DrainRows, takes=PauseBody))
async def pause(
    controller: ControllerDep, who: Drainer, wanted: Annotated[PauseBody, Depends(body(PauseBody))]
) -> Response:
    """Pause nodes: their agents let devices and mounts go, hooks admit, nothing is drained or resumed."""
    expand(wanted.nodes, limit=NODES_AT_ONCE)
    return reply(DrainRows(items=await controller.pause(wanted.nodes, wanted.seconds, wanted.reason, who.name)))


@router.post("/pauses/end", **answers(DrainRows, takes=ReadyBody))
async def ready(
    controller: ControllerDep, who: Drainer, wanted: Annotated[ReadyBody, Depends(body(ReadyBody))]
) -> Response:
    """End pauses and have every node of the list verified."""
    expand(wanted.nodes, limit=NODES_AT_ONCE)
    return reply(DrainRows(items=await controller.unpause(wanted.nodes, who.name)))


@router.get("/silences", **answers(Page[SilenceView]))
def list_silences(controller: ControllerDep, _: Viewer) -> Response:
    """Every silence in force."""
    return reply(Page(items=controller.silences()))


@router.post("/silences", **answers(Page[SilenceView], takes=SilenceBody))
async def silence(
    controller: ControllerDep, who: Drainer, wanted: Annotated[SilenceBody, Depends(body(SilenceBody))]
) -> Response:
    """Silence a check, nodes or a partition: findings are shown and lead to nothing."""
    if not (wanted.check or wanted.nodes or wanted.partition):
        raise Unacceptable("a silence names a check, nodes or a partition")
    if wanted.nodes:
        expand(wanted.nodes, limit=NODES_AT_ONCE)
    made = await controller.silence(
        check=wanted.check or "",
        nodes=wanted.nodes or "",
        partition=wanted.partition or "",
        seconds=wanted.seconds,
        reason=wanted.reason,
        actor=who.name,
    )
    return reply(Page(items=made))


@router.delete("/silences/{number}", status_code=204)
async def unsilence(number: RowId, controller: ControllerDep, who: Drainer) -> Response:
    """End a silence before its time."""
    if not await controller.unsilence(number, who.name):
        raise Absent(f"no silence {number} is in force")
    return Response(status_code=204)
