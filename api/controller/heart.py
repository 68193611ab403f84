"""The controller's heart beats when Slurm is due to be read or a node has reported, and keeps the lease meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from api.controller.core import Core
from api.controller.fence import RENEW_SECONDS

log = logging.getLogger(__name__)
# Reports come in bursts when a job starts; one look serves all that came within this time.
GATHER_SECONDS = 0.2
AFTER_ERROR_SECONDS = 2.0
Tick = Callable[[], Coroutine[Any, Any, None]]


async def beat(core: Core, tick: Tick, wake: asyncio.Event, until_read: Callable[[], float]) -> None:
    """Work until cancelled, then let another server lead."""
    renewing = asyncio.create_task(_renew(core), name="controller lease")
    try:
        while True:
            if not await core.spare("", tick()):
                await asyncio.sleep(AFTER_ERROR_SECONDS)
            try:
                await asyncio.wait_for(wake.wait(), until_read())
            except asyncio.TimeoutError:
                continue
            await asyncio.sleep(GATHER_SECONDS)
            wake.clear()
    finally:
        renewing.cancel()
        with contextlib.suppress(SQLAlchemyError):
            core.fence.release()


async def _renew(core: Core) -> None:
    """Keep the lease through a round that takes long."""
    while True:
        await asyncio.sleep(RENEW_SECONDS)
        try:
            await asyncio.to_thread(core.fence.lead)
        except SQLAlchemyError as error:
            log.error("controller lease not renewed: %s", error)
