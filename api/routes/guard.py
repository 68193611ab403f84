"""The guard and those who overrule it: its numbers, overrides, accepted risks and contests, each with name and end."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends
from starlette.responses import Response

from api.ports import GuardView, OverrideView, RiskView
from api.problems import Absent
from api.routes.deps import Admin, ControllerDep, Drainer, Viewer
from api.routes.fleet import NODES_AT_ONCE
from api.routes.shapes import DrainRows, Hostlist, Page, answers, body, reply
from slurm.hostlist import expand

router = APIRouter(tags=["guard"])
RISK_LONGEST = 7 * 86400.0
OVERRIDE_LONGEST = 86400.0
Why = Annotated[str, msgspec.Meta(min_length=1, max_length=160)]
Code = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_]{0,63}$")]


class RiskBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Have a host list used in spite of what is known of it, for some seconds, a week at most."""

    nodes: Hostlist
    seconds: Annotated[float, msgspec.Meta(ge=1.0, le=RISK_LONGEST)]
    reason: Why


class ClearBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Let automation drain a host list again."""

    nodes: Hostlist
    reason: Why


class OverrideBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lift the ceilings for one code, or for all where none is named, for some seconds, a day at most."""

    code: Code | None = None
    seconds: Annotated[float, msgspec.Meta(ge=1.0, le=OVERRIDE_LONGEST)]
    reason: Why


@router.get("/guard", **answers(GuardView))
def guard(controller: ControllerDep, _: Viewer) -> Response:
    """How many nodes automation may still take out, and what says so."""
    return reply(controller.desk.guard())


@router.post("/guard/override", **answers(OverrideView, takes=OverrideBody))
async def override(
    controller: ControllerDep, who: Admin, wanted: Annotated[OverrideBody, Depends(body(OverrideBody))]
) -> Response:
    """Lift ceilings, rates and correlation for a time; the floors of capacity stay."""
    return reply(await controller.desk.override(wanted.code or "", wanted.seconds, wanted.reason, who.name))


@router.delete("/guard/override", status_code=204)
async def end_override(controller: ControllerDep, who: Admin) -> Response:
    """Close the guard again before its time."""
    if not await controller.desk.end_override(who.name):
        raise Absent("no override is in force")
    return Response(status_code=204)


@router.get("/risks", **answers(Page[RiskView]))
def list_risks(controller: ControllerDep, _: Viewer) -> Response:
    """Every accepted risk in force."""
    return reply(Page(items=controller.desk.risks()))


@router.post("/risks", **answers(DrainRows, takes=RiskBody))
async def accept(
    controller: ControllerDep, who: Drainer, wanted: Annotated[RiskBody, Depends(body(RiskBody))]
) -> Response:
    """Resume nodes as they are: what is known of them drains and refuses nothing for a time."""
    expand(wanted.nodes, limit=NODES_AT_ONCE)
    rows = await controller.desk.accept(wanted.nodes, wanted.seconds, wanted.reason, who.name)
    return reply(DrainRows(items=rows))


@router.post("/guard/clear", **answers(DrainRows, takes=ClearBody))
async def clear(
    controller: ControllerDep, who: Drainer, wanted: Annotated[ClearBody, Depends(body(ClearBody))]
) -> Response:
    """End contests and accepted risks: automation drains these nodes again."""
    expand(wanted.nodes, limit=NODES_AT_ONCE)
    return reply(DrainRows(items=await controller.desk.clear(wanted.nodes, wanted.reason, who.name)))
