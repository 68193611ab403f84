"""Where nodes stand between service and repair: states with their moves, probation, repairs, looks that are owed."""

from __future__ import annotations

from typing import Annotated

import msgspec
from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from api.ports import PauseView
from api.problems import Absent
from api.routes.deps import ControllerDep, Cursor, Drainer, Limit, Name, Viewer, Window
from api.routes.fleet import NODES_AT_ONCE
from api.routes.shapes import DrainRows, Hostlist, Page, answers, body, paged, reply, row_cursor
from api.service_port import LookView, MoveView, PartView, ServiceView, SwapView
from slurm.hostlist import expand

router = APIRouter(tags=["service state"])
Why = Annotated[str, msgspec.Meta(min_length=1, max_length=160)]
Ticket = Annotated[str, msgspec.Meta(min_length=1, max_length=64)]


class RepairBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Keep hands off a host list under a ticket until it is said to be ready."""

    nodes: Hostlist
    ticket: Ticket
    reason: Why


@router.get("/nodes/{cluster}/{node}/service", **answers(ServiceView))
def node_service(cluster: Name, node: Name, controller: ControllerDep, _: Viewer) -> Response:
    """Where one node stands, since when, with which evidence, and what brings it back."""
    if found := controller.service.of(cluster, node):
        return reply(found)
    raise Absent(f"no node {node} in cluster {cluster}")


@router.get("/nodes/{cluster}/{node}/moves", **answers(Page[MoveView]))
def node_moves(
    cluster: Name, node: Name, controller: ControllerDep, _: Viewer, cursor: Cursor = None, limit: Limit = 100
) -> Response:
    """How the node moved between service and repair, the newest first."""
    return paged(controller.service.moves(cluster, node, row_cursor(cursor), limit), limit, lambda m: m.id)


@router.get("/nodes/{cluster}/{node}/parts", **answers(Page[PartView]))
def node_parts(cluster: Name, node: Name, controller: ControllerDep, _: Viewer) -> Response:
    """The parts that stand in the node, then those that stood there, by slot."""
    return reply(Page(items=controller.service.parts(cluster, node)))


@router.get("/swaps", **answers(Page[SwapView]))
def list_swaps(
    controller: ControllerDep,
    _: Viewer,
    since: Window = 30 * 86400.0,
    nodes: Annotated[str | None, Query(max_length=60_000)] = None,
) -> Response:
    """Parts that were replaced or moved within the last ``since`` seconds: where, when, after which drain."""
    names = frozenset(expand(nodes, limit=NODES_AT_ONCE)) if nodes else None
    found = controller.service.swaps(since or 30 * 86400.0)
    return reply(Page(items=[v for v in found if names is None or v.node in names]))


@router.get("/probation", **answers(Page[ServiceView]))
def list_watched(controller: ControllerDep, _: Viewer) -> Response:
    """Nodes that are watched closer since they came back, and nodes that wait for a person since they flap."""
    return reply(Page(items=controller.service.watched()))


@router.get("/looks", **answers(Page[LookView]))
def list_looks(
    controller: ControllerDep, _: Viewer, nodes: Annotated[str | None, Query(max_length=60_000)] = None
) -> Response:
    """The last whole look that was asked for of each node, and what came of it."""
    names = frozenset(expand(nodes, limit=NODES_AT_ONCE)) if nodes else None
    return reply(Page(items=[v for v in controller.service.looks() if names is None or v.node in names]))


@router.get("/repairs", **answers(Page[PauseView]))
def list_repairs(controller: ControllerDep, _: Viewer) -> Response:
    """Every node in repair, with its ticket."""
    return reply(Page(items=[p for p in controller.pauses() if p.ticket]))


@router.post("/repairs", **answers(DrainRows, takes=RepairBody))
async def repair(
    controller: ControllerDep, who: Drainer, wanted: Annotated[RepairBody, Depends(body(RepairBody))]
) -> Response:
    """Begin a repair of nodes that are out of service; it ends when they are said to be ready."""
    expand(wanted.nodes, limit=NODES_AT_ONCE)
    rows = await controller.service.repair(wanted.nodes, wanted.ticket, wanted.reason, who.name)
    return reply(DrainRows(items=rows))
