"""Starts a real zygote for one test and ends everything that the test has started."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from checks import Check, Finding
from daemon.lanes.pool import LanePool
from daemon.lanes.process import stat_fields
from daemon.lanes.wire import HostSpec
from daemon.lanes.zygote import Zygote
from daemon.plan import Instance

T = TypeVar("T")
PRELOAD = ("tests.daemon.lanes.rogue",)


def _nothing() -> None:
    """Stands for the check's function, which only the lane knows."""


def instance(do: str, *, lane: str = "fs:/scratch", timeout: float = 0.5, **options: object) -> Instance:
    """An instance of the misbehaving check in ``lane``."""
    declared = Check("rogue", _nothing, "rogue", "rogue")  # type: ignore[arg-type]
    name = f"rogue:{lane.partition(':')[2]}"
    return Instance(name, declared, {"do": do, **options}, lane, 60.0, timeout)


def zygote(**spec: object) -> Zygote:
    """A zygote of this process, which other tests may have left threads in for a moment."""
    eventually(lambda: threading.active_count() == 1, "threads of another test are still there")
    return Zygote.start(HostSpec(**spec), PRELOAD)  # type: ignore[arg-type]


def with_pool(
    body: Callable[[LanePool], Awaitable[T]],
    state_dir: Path | None = None,
    *,
    spec: dict[str, object] | None = None,
    remembers: bool = False,
) -> T:
    """Run ``body`` with a pool over a fresh zygote and close it afterwards."""
    ancestor = zygote(**(spec or {}))

    async def whole() -> T:
        pool = LanePool(ancestor, state_dir=state_dir, remembers=remembers)
        try:
            return await body(pool)
        finally:
            await pool.close()

    return asyncio.run(whole())


def eventually(condition: Callable[[], bool], what: str, seconds: float = 15.0) -> None:
    """Wait until ``condition`` holds; fails with ``what`` after ``seconds``."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


async def later(condition: Callable[[], bool], what: str, seconds: float = 15.0) -> None:
    """Like eventually(), inside a loop."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.01)


def gone(pid: int) -> bool:
    """Whether a process has ended (one that nobody collected counts as ended)."""
    fields = stat_fields(pid)
    return not fields or fields[0] in "ZX"


def end(pid: int) -> None:
    """End a process that a test left behind."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def only(finding: tuple[Finding, ...]) -> Finding:
    """The single finding."""
    assert len(finding) == 1, finding
    return finding[0]
