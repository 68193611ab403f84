"""What a route may ask for in its signature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Path, Query
from starlette.requests import Request

from api.auth.principal import Principal, Role
from api.hot.routes import Shared
from api.ports import ControllerPort
from api.store.store import Store


def shared_of(request: Request) -> Shared:
    """What the application was created with."""
    shared: Shared = request.app.state.shared
    return shared


def store_of(request: Request) -> Store:
    """The store."""
    return shared_of(request).store


def controller_of(request: Request) -> ControllerPort:
    """The controller."""
    return shared_of(request).controller


def needs(role: Role, scope: str) -> Callable[[Request], Principal]:
    """A dependency that is the principal, once it has the role and the scope."""

    def principal(request: Request) -> Principal:
        found: Principal = request.scope["state"]["principal"]
        found.need(role, scope)
        return found

    return principal


def job_reader(request: Request) -> Principal:
    """Whoever may read, and whoever may read nothing but what became of a job."""
    found: Principal = request.scope["state"]["principal"]
    found.need("viewer", "jobs" if "jobs" in found.scopes else "read")
    return found


SharedDep = Annotated[Shared, Depends(shared_of)]
StoreDep = Annotated[Store, Depends(store_of)]
ControllerDep = Annotated[ControllerPort, Depends(controller_of)]
Viewer = Annotated[Principal, Depends(needs("viewer", "read"))]
JobReader = Annotated[Principal, Depends(job_reader)]
Drainer = Annotated[Principal, Depends(needs("operator", "drain"))]
Orderer = Annotated[Principal, Depends(needs("operator", "order"))]
Acker = Annotated[Principal, Depends(needs("operator", "ack"))]
Admin = Annotated[Principal, Depends(needs("admin", "admin"))]
Limit = Annotated[int, Query(ge=1, le=1000)]
# Seconds back from now, at most a year.
Window = Annotated[float | None, Query(gt=0, le=366 * 86400)]
Cursor = Annotated[str | None, Query(max_length=2000)]
Name = Annotated[str, Path(min_length=1, max_length=128)]
RowId = Annotated[int, Path(ge=0, le=2**63 - 1)]
