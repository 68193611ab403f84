"""One application is made of a store, a controller and settings; nothing is decided at import."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException

from api.auth.gate import Gate
from api.describe import describe
from api.hot.routes import Shared, hot_routes
from api.metrics import Meters
from api.ports import ControllerPort
from api.problems import answer
from api.routes import (
    admin,
    drains,
    facts,
    firmware,
    guard,
    incidents,
    jobs,
    nodes,
    operations,
    quiet,
    remedies,
    service,
    state,
)
from api.settings import ServerSettings
from api.store.store import Store

log = logging.getLogger(__name__)
PREFIX = "/api/v1"
WRITERS = 4
PRUNE_SECONDS = 12 * 3600.0


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
    writers = ThreadPoolExecutor(WRITERS, thread_name_prefix="writer")
    app.state.shared = Shared(store, controller, settings, Meters(), asyncio.Event(), writers)
    parts = (nodes, jobs, facts, firmware, incidents, drains, operations, guard, quiet, remedies, state, admin, service)
    for part in parts:
        app.include_router(part.router, prefix=PREFIX)
    app.include_router(service.outside)
    app.router.routes.extend(hot_routes(app.state.shared))
    for kind in (HTTPException, RequestValidationError):
        app.add_exception_handler(kind, answer)
    app.add_middleware(Gate, store=store, settings=settings)
    describe(app, PREFIX)
    return app


@contextlib.asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    """The controller works as long as the server does; its end is loud, and stopping waits for it."""
    shared: Shared = app.state.shared
    working = [
        asyncio.create_task(shared.controller.run(), name="controller"),
        asyncio.create_task(_prune(shared), name="prune"),
    ]
    app.state.working = working[0]
    for task in working:
        task.add_done_callback(_ended)
    try:
        yield
    finally:
        shared.closing.set()
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)
        shared.writers.shutdown(wait=True)


async def _prune(shared: Shared) -> None:
    """Let old history and findings of checks that are gone go, at the start and twice a day."""
    while True:
        try:
            gone = await asyncio.to_thread(shared.store.prune, shared.settings.keep_days)
            nodes = await asyncio.to_thread(shared.store.retire)
            log.info("history pruned rows=%d days=%g retired_nodes=%d", gone, shared.settings.keep_days, nodes)
        except SQLAlchemyError as error:
            log.error("history was not pruned: %s", error)
        await asyncio.sleep(PRUNE_SECONDS)


def _ended(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        log.critical("%s ended by itself", task.get_name(), exc_info=task.exception())
