"""Now and then Slurm is asked which nodes its jobs exclude: users may know of a node what no check sees."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Protocol, runtime_checkable

from api.controller.core import Core
from api.store import exclusions
from api.store.database import Database
from slurm.errors import SlurmError
from slurm.exclusions import Exclusion

log = logging.getLogger(__name__)
EVERY = 600.0
# A list of more nodes than this share means a rack, a partition or a kind of node, not those nodes.
SHARE = 0.25
LEAST = 2


@runtime_checkable
class _Tells(Protocol):
    def exclusions(self) -> list[Exclusion]: ...


class Avoided:
    """One question of all jobs every ten minutes."""

    def __init__(self, core: Core, database: Database) -> None:
        self._core, self._db = core, database
        self._asked = float("-inf")

    async def look(self) -> None:
        """Ask and write down; no answer changes nothing."""
        backend, now = self._core.view.backend, time.monotonic()
        if now - self._asked < EVERY or not isinstance(backend, _Tells):
            return
        self._asked = now
        try:
            found = await self._core.view.call(backend.exclusions)
        except (SlurmError, TimeoutError) as error:
            log.info("exclusions not read why=%s", error)
            return
        await asyncio.to_thread(self._write, found)

    def _write(self, found: list[Exclusion]) -> None:
        largest = max(LEAST, int(SHARE * len(self._core.view.states)))
        with self._db.begin() as connection:
            exclusions.record(connection, self._core.cluster, found, self._core.clock(), largest)
