"""What Slurm holds, read in one call an interval and kept with its age; no answer changes nothing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from functools import partial
from typing import TypeVar

import msgspec

from api.controller.fence import Fenced
from api.controller.slurm_trouble import code_of
from checks.wire import Limits
from slurm.backend import Backend
from slurm.config import SlurmLimits, gate_possible
from slurm.errors import BadAnswer, SlurmError
from slurm.retry import until
from slurm.state import NodeState

log = logging.getLogger(__name__)
T = TypeVar("T")
# A Slurm that hangs holds these threads and no others: database, tokens and pages have theirs.
THREADS = 16
# Few and cheap questions: new limits must reach hooks soon, and the start of a new slurmctld is told nowhere else.
CONFIG_SECONDS = 5.0
CALL_SECONDS = 20.0
RETRY_SECONDS = 1.0


class SlurmView:
    """Cached node states and limits; every call into Slurm runs in a thread and has its own deadline there."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.states: Mapping[str, NodeState] = {}
        self.limits: SlurmLimits | None = None
        self.read_at: datetime | None = None
        self.error = ""
        self.trouble = ""
        self.clock: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
        self.back: dict[str, datetime] = {}
        self.limits_changed: Callable[[], None] = lambda: None
        self._config_at = -CONFIG_SECONDS
        self._states_at = float("-inf")
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="slurm")

    async def call(self, function: Callable[..., T], *args: object, timeout: float = CALL_SECONDS) -> T:
        """Run one blocking call in a thread; raises SlurmError, TimeoutError when it does not come back in time."""
        asked = asyncio.get_running_loop().run_in_executor(self._threads, partial(function, *args))
        name = getattr(function, "__name__", "call")
        try:
            return await asyncio.wait_for(asked, timeout)
        except asyncio.TimeoutError as error:
            raise TimeoutError(f"slurm call {name} did not come back within {timeout:g} s") from error
        except (SlurmError, Fenced):
            raise
        except Exception as error:
            log.exception("slurm call failed call=%s", name)
            raise BadAnswer(f"slurm call {name}: {type(error).__name__}: {error}") from error

    async def refresh(self) -> bool:
        """Read all nodes, and now and then the configuration; False and ``error`` when Slurm does not answer."""
        started = self.clock()
        try:
            states = await self.call(partial(until, RETRY_SECONDS, self.backend.nodes))
            answered = time.monotonic()
            forgetful = await self._configure() if self._config_due() else False
        except (SlurmError, TimeoutError) as error:
            self.error, self.trouble = str(error), code_of(error)
            # What comes back may be another slurmctld, with another configuration.
            self.suspect()
            return False
        for name, state in states.items():
            was = self.states.get(name)
            # A slurmctld that has just started may only have forgotten what took the node out.
            if was and was.out_of_service and not state.out_of_service and not forgetful:
                self.back[name] = started
        self.states, self._states_at = states, answered
        # A write that happened during the read may or may not be in it: count from its start.
        self.read_at = started
        self.error = ""
        return True

    @property
    def booted(self) -> datetime | None:
        """When the slurmctld was started that answered last, by its clock; None where it does not say."""
        return self.limits.booted if self.limits is not None else None

    def suspect(self) -> None:
        """Something was not as expected: have the configuration read anew at the next look."""
        self._config_at = -CONFIG_SECONDS

    async def same_slurmctld(self) -> bool:
        """Make sure that ``booted`` is not older than the node states; False where Slurm does not say."""
        if self._config_at < self._states_at:
            try:
                await self._configure()
            except (SlurmError, TimeoutError) as error:
                log.warning("slurm configuration not read why=%s", error)
                return False
        return True

    def _config_due(self) -> bool:
        return time.monotonic() - self._config_at >= CONFIG_SECONDS

    async def _configure(self) -> bool:
        """Read the configuration; whether another slurmctld answers than before."""
        before, told = self.booted, self.wire_limits()
        at = time.monotonic()
        self.limits = await self.call(self.backend.limits)
        self._config_at = at
        if msgspec.structs.replace(told, read_at=None) != msgspec.structs.replace(self.wire_limits(), read_at=None):
            self.limits_changed()
        return before is not None and self.booted is not None and before != self.booted

    def age(self, now: datetime) -> float | None:
        """Seconds since the node list was read, None when it never was."""
        return None if self.read_at is None else (now - self.read_at).total_seconds()

    def wire_limits(self) -> Limits:
        """The limits as agents get them."""
        if self.limits is None:
            return Limits()
        why_not = gate_possible(self.limits)
        return Limits(
            budget=self.limits.budget(),
            gate_possible=why_not is None,
            gate_why_not=why_not or "",
            health_check_interval=self.limits.health_check_interval,
            restart_after=self.limits.restart_after,
            nohold=self.limits.nohold,
            gpus_told=self.limits.gpus_told,
            read_at=self.read_at,
        )
