"""That a drain would be accepted is proved without a node, before the first bad node needs it."""

from __future__ import annotations

import asyncio
import time

from api.controller.core import Core
from slurm.errors import Busy, SlurmError, Timeout
from slurm.proof import prove_writes

CODE = "cannot_drain"
EVERY = 600.0
AGAIN = 60.0


class DrainRight:
    """Asks at the start, every ten minutes, and every minute while it is refused; a busy Slurm proves nothing."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._next = float("-inf")

    async def prove(self) -> None:
        """One round: an incident as long as slurmctld would not take a drain from this account."""
        core, now = self._core, time.monotonic()
        if not core.settings.automation or now < self._next:
            return
        self._next = now + EVERY
        try:
            await core.view.call(prove_writes, core.view.backend)
        except (Busy, Timeout, TimeoutError):
            self._next = now + AGAIN
        except SlurmError as error:
            self._next = now + AGAIN
            text = f"a drain would not be accepted, so every bad node stays in service: {error}"
            await asyncio.to_thread(core.incident, "", CODE, text)
        else:
            await asyncio.to_thread(core.solved, "", CODE, "a drain would be accepted")
