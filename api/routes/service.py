"""The service itself: what it enforces, how much it covers, whether it works."""

from __future__ import annotations

from fastapi import APIRouter
from sqlalchemy.exc import SQLAlchemyError
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from api import metrics
from api.auth.principal import Principal
from api.hot.routes import Shared
from api.routes.deps import ControllerDep, SharedDep, StoreDep, Viewer, Window
from api.routes.fleet import coverage, powered_down
from api.routes.shapes import Coverage, Health, answers, reply
from api.store.views import LemonsView
from checks.judge.policy import Policy

DAY, MONTH = 86400.0, 30 * 86400.0
router = APIRouter(tags=["service"])
outside = APIRouter(tags=["service"])


@router.get("/policy", **answers(Policy))
def policy(store: StoreDep, _: Viewer) -> Response:
    """The policy in force; ``origin`` names the file of each value."""
    return reply(store.policy)


@router.get("/coverage", **answers(Coverage))
def covered(store: StoreDep, controller: ControllerDep, _: Viewer, since: Window = DAY) -> Response:
    """How much of the cluster is vetted, and what began unvetted within the last ``since`` seconds, by cause."""
    return reply(coverage(store, controller, since or DAY))


@router.get("/lemons", **answers(LemonsView))
def worst(store: StoreDep, _: Viewer, since: Window = MONTH) -> Response:
    """Nodes with more troubles than their peers within the last ``since`` seconds; none where there is little data."""
    return reply(store.lemons(since or MONTH))


@router.get("/health", **answers(Health))
async def health() -> Response:
    """Whether the process answers; needs no token."""
    return reply(Health(status="ok"))


@router.get("/ready", **answers(Health))
def ready(request: Request, shared: SharedDep) -> Response:
    """Whether database, controller and Slurm answer; needs no token. Without Slurm all but drains works."""
    found = _health(shared, request)
    return reply(found, 200 if found.status == "ok" else 503)


@outside.get("/metrics", response_class=PlainTextResponse)
def prometheus(request: Request, shared: SharedDep) -> Response:
    """Counters for Prometheus; from this machine without a token."""
    principal: Principal = request.scope["state"]["principal"]
    if not _local(request, shared):
        principal.need("viewer", "read")
    return Response(_text(shared, request), media_type=metrics.CONTENT_TYPE)


def _local(request: Request, shared: Shared) -> bool:
    """Whether the asker sits on this machine; behind a proxy everybody seems to."""
    return shared.settings.loopback and not shared.settings.behind_proxy and request.client is not None


def _text(shared: Shared, request: Request) -> str:
    return metrics.render(
        shared.meters,
        nodes=shared.store.verdict_counts(),
        open_incidents=shared.store.open_incidents(),
        refused_requests=request.scope["state"]["gate"].refusals,
        controller={**shared.controller.metrics(), "nodes_powered_down": powered_down(shared.controller)},
    )


def _health(shared: Shared, request: Request) -> Health:
    database = _database(shared)
    controller = "stopped" if request.app.state.working.done() else "ok"
    slurm = "ok" if shared.controller.limits().read_at else "not read yet"
    good = database == controller == "ok"
    return Health(status="ok" if good else "not ready", database=database, controller=controller, slurm=slurm)


def _database(shared: Shared) -> str:
    try:
        shared.store.open_incidents()
    except SQLAlchemyError:
        return "no answer"
    return "ok"
