"""What the guard groups nodes by beside partitions: switches and blocks as Slurm knows them, and drivers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Protocol

from api.controller.slurm_view import SlurmView
from api.store.views import NodeRow
from slurm.errors import SlurmError
from slurm.topology import Topology

log = logging.getLogger(__name__)
TOPOLOGY_SECONDS = 600.0
DRIVER_SECONDS = 60.0


class _Rows(Protocol):
    def node_rows(self) -> list[NodeRow]: ...


class Ground:
    """Kept as last read; a backend or a Slurm that tells no topology leaves partitions alone as groups."""

    def __init__(self, cluster: str, store: _Rows, view: SlurmView) -> None:
        self._cluster, self._store, self._view = cluster, store, view
        self.topology = Topology()
        self.drivers: Mapping[str, str] = {}
        self._topology_at = self._drivers_at = float("-inf")

    async def refresh(self) -> None:
        """Read what is due; a failure is logged and keeps what was read before."""
        now = time.monotonic()
        if now - self._drivers_at >= DRIVER_SECONDS:
            self._drivers_at = now
            rows = await asyncio.to_thread(self._store.node_rows)
            self.drivers = {r.node: r.facts.driver for r in rows if r.cluster == self._cluster and r.facts}
        if now - self._topology_at >= TOPOLOGY_SECONDS:
            self._topology_at = now
            try:
                self.topology = await self._view.call(self._view.backend.topology)
            except (SlurmError, TimeoutError) as error:
                # Most clusters have none, and some releases say so with an error.
                log.info("topology not read why=%s", error)
