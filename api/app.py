"""One application is made of a store, a controller and settings; nothing is decided at import."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from api.auth.gate import Gate
from api.hot.routes import Shared, hot_routes
from api.metrics import Meters
from api.ports import ControllerPort
from api.problems import answer
from api.routes import admin, drains, incidents, jobs, nodes, service
from api.routes.shapes import SHAPES
from api.settings import ServerSettings
from api.store.store import Store

log = logging.getLogger(__name__)
PREFIX = "/api/v1"


def create_app(store: Store, controller: ControllerPort, settings: ServerSettings) -> FastAPI:
    """The whole HTTP side; ``app.state.shared.closing`` set = the server is stopping."""
    app = FastAPI(
        title="Nodevet",
        version="1",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        lifespan=_lifespan,
    )
    app.state.shared = Shared(store, controller, settings, Meters(), asyncio.Event())
    for part in (nodes, jobs, incidents, drains, admin, service):
        app.include_router(part.router, prefix=PREFIX)
    app.include_router(service.outside)
    app.router.routes.extend(hot_routes(app.state.shared))
    for kind in (HTTPException, RequestValidationError):
        app.add_exception_handler(kind, answer)
    app.add_middleware(Gate, store=store, settings=settings)
    _describe(app)
    return app


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """The controller works as long as the server does; its end is loud, and stopping waits for it."""
    shared: Shared = app.state.shared
    running = asyncio.create_task(shared.controller.run(), name="controller")
    running.add_done_callback(_ended)
    try:
        yield
    finally:
        shared.closing.set()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        log.critical("controller ended by itself", exc_info=task.exception())


def _describe(app: FastAPI) -> None:
    """Put our own shapes beside what FastAPI describes by itself."""
    plain = app.openapi

    def described() -> dict[str, Any]:
        document = plain()
        document.setdefault("components", {}).setdefault("schemas", {}).update(SHAPES)
        return document

    app.openapi = described  # type: ignore[method-assign]
