"""Nodes: a list with filters, one node with everything, its findings, reports and history."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from api.problems import Absent
from api.routes.deps import ControllerDep, Cursor, Limit, Name, Orderer, StoreDep, Viewer, Window
from api.routes.fleet import detail, node_filter, standing_in, with_slurm
from api.routes.shapes import (
    CheckBody,
    NodeDetail,
    Page,
    answers,
    body,
    from_cursor,
    paged,
    reply,
    row_cursor,
)
from api.service_port import ServiceState
from api.store.past_views import PastFilter, TimelineItem
from api.store.store import utc_now
from api.store.views import ChangeView, FindingView, NodeFilter, NodeView, ReportView
from checks.wire import Finding, Order, Status, Verdict

router = APIRouter(tags=["nodes"])


def known_node(cluster: Name, node: Name, store: StoreDep, _: Orderer) -> None:
    """Refuse a node that no agent ever spoke for, once the asker may know that."""
    if store.node(cluster, node) is None:
        raise Absent(f"no node {node} in cluster {cluster}")


def _past(
    had: Annotated[str | None, Query(max_length=64)] = None,
    part: Annotated[str | None, Query(min_length=1, max_length=128)] = None,
    driver: Annotated[str | None, Query(max_length=64)] = None,
    drained: Annotated[int | None, Query(ge=1, le=10_000)] = None,
    rebooted: Annotated[int | None, Query(ge=1, le=10_000)] = None,
    since: Window = None,
) -> PastFilter:
    begin = None if since is None else utc_now() - timedelta(seconds=since)
    return PastFilter(since=begin, had=had, part=part, driver=driver, drained=drained, rebooted=rebooted)


def _wanted(
    controller: ControllerDep,
    past: Annotated[PastFilter, Depends(_past)],
    verdict: Verdict | None = None,
    q: Annotated[str, Query(max_length=200)] = "",
    nodes: Annotated[str | None, Query(max_length=60_000)] = None,
    cluster: Annotated[str | None, Query(max_length=128)] = None,
    service: ServiceState | None = None,
) -> NodeFilter:
    return standing_in(controller, service, node_filter(verdict, q, nodes, cluster, None if past.empty else past))


@router.get("/nodes", **answers(Page[NodeView]))
def list_nodes(
    store: StoreDep,
    controller: ControllerDep,
    _: Viewer,
    wanted: Annotated[NodeFilter, Depends(_wanted)],
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Response:
    """Nodes by cluster and name."""
    views = store.nodes(wanted, from_cursor(cursor, tuple[str, str]), limit)
    return paged([with_slurm(v, controller) for v in views], limit, lambda v: (v.cluster, v.node))


@router.get("/nodes/{cluster}/{node}", **answers(NodeDetail))
def one_node(cluster: Name, node: Name, store: StoreDep, controller: ControllerDep, _: Viewer) -> Response:
    """One node with its findings, its drain and its recent reports."""
    if found := detail(store, controller, cluster, node):
        return reply(found)
    raise Absent(f"no node {node} in cluster {cluster}")


@router.get("/nodes/{cluster}/{node}/findings", **answers(Page[Finding]))
def node_findings(cluster: Name, node: Name, store: StoreDep, _: Viewer) -> Response:
    """The node's current findings."""
    return reply(Page(items=list(store.current_findings(cluster, node))))


@router.get("/nodes/{cluster}/{node}/reports", **answers(Page[ReportView]))
def node_reports(
    cluster: Name, node: Name, store: StoreDep, _: Viewer, cursor: Cursor = None, limit: Limit = 100
) -> Response:
    """The node's kept reports, the newest first."""
    return paged(store.reports_of_node(cluster, node, row_cursor(cursor), limit), limit, lambda r: r.id)


@router.get("/nodes/{cluster}/{node}/changes", **answers(Page[ChangeView]))
def node_changes(
    cluster: Name, node: Name, store: StoreDep, _: Viewer, cursor: Cursor = None, limit: Limit = 100
) -> Response:
    """The node's history, the newest first."""
    return paged(store.changes(cluster, node, row_cursor(cursor), limit), limit, lambda c: c.id)


@router.get("/nodes/{cluster}/{node}/timeline", **answers(Page[TimelineItem]))
def node_timeline(
    cluster: Name,
    node: Name,
    store: StoreDep,
    _: Viewer,
    since: Window = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Response:
    """Everything that happened on the node, the newest first; ``since``: seconds back from now."""
    begin = None if since is None else utc_now() - timedelta(seconds=since)
    rows = store.timeline(cluster, node, begin, from_cursor(cursor, datetime), limit)
    return paged(rows, limit, lambda item: item.at)


@router.post("/nodes/{cluster}/{node}/check", status_code=202, **answers(Order, status=202, takes=CheckBody))
async def check_node(
    cluster: Name,
    node: Name,
    controller: ControllerDep,
    who: Orderer,
    wanted: Annotated[CheckBody, Depends(body(CheckBody))],
    _: Annotated[None, Depends(known_node)],
) -> Response:
    """Ask the node's agent to look again; the order rides in the reply to its open poll."""
    return reply(await controller.order(cluster, node, wanted.kind, actor=who.name, checks=wanted.checks), 202)


@router.get("/findings", **answers(Page[FindingView]))
def list_findings(
    store: StoreDep,
    _: Viewer,
    status: Status | None = None,
    code: Annotated[str | None, Query(max_length=64)] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Response:
    """Current findings of all nodes, by status or code."""
    rows = store.all_current(status, code, from_cursor(cursor, tuple[str, str, str, str, str]), limit)
    return paged(rows, limit, lambda f: (f.cluster, f.node, f.check, f.target, f.code))
