"""One change of a node: read, let the caller store that, look again, write at once, read back.

Slurm has no compare-and-set. What remains is the time between Slurm's answer and its next request, reported in each
`Outcome`; a writer who falls into it is seen when what is read back is not what was written.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from slurm.backend import Backend
from slurm.errors import InvalidTransition, SlurmError
from slurm.reason import Owner, owner_of
from slurm.state import NodeState

MAX_GAP = 0.05  # seconds between what was read and the write

Store = Callable[[NodeState], object]
# Raises where the caller may not write any more; asked right before the write, its error is passed on.
Fence = Callable[[], object]


class Result(enum.Enum):
    """What became of a wish to change a node."""

    WRITTEN = "written"
    ALREADY_OURS = "already-ours"
    IN_SERVICE = "in-service"
    KEPT = "kept"
    HANDS_OFF = "hands-off"
    LOST_RACE = "lost-race"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of it, what stood there before and after, and how long the race was open, in milliseconds.

    `gap_ms` runs from the answer that was judged to the write's start, `window_ms` from the question to the write's
    end: somebody else's change can only have been missed within the latter.
    """

    result: Result
    detail: str = ""
    owner: Owner | None = None
    before: NodeState | None = None
    after: NodeState | None = None
    gap_ms: float | None = None
    window_ms: float | None = None

    @property
    def unsure(self) -> bool:
        """Whether a write was tried and nobody knows what became of it."""
        return self.result is Result.FAILED and self.window_ms is not None and self.after is None


class Stop(Exception):
    """The node's present state forbids the change."""

    def __init__(self, result: Result, detail: str) -> None:
        super().__init__(detail)
        self.result = result


def change(
    backend: Backend,
    name: str,
    judge: Callable[[NodeState], None],
    write: Callable[[], None],
    verify: Callable[[NodeState], Stop | None],
    store: Store | None,
    fence: Fence | None,
) -> Outcome:
    """Make the change unless `judge` stops it; `verify` says what is wrong with what is read back."""
    outcome = Outcome(Result.FAILED)
    try:
        asked, answered, state = _read(backend, name)
        judge(state)
        if store is not None:
            store(state)
            if time.monotonic() - answered > MAX_GAP:
                asked, answered, state = _read(backend, name)
                judge(state)
        outcome = replace(outcome, before=state, owner=owner_of(state), gap_ms=_ms(answered))
        if fence is not None:
            fence()
        error = _attempt(write)
        outcome = replace(outcome, window_ms=_ms(asked))
    except Stop as stop:
        return replace(outcome, result=stop.result, detail=str(stop), before=state, owner=owner_of(state))
    except SlurmError as failure:
        return replace(outcome, detail=str(failure))
    return _read_back(backend, name, outcome, error, verify)


def _attempt(write: Callable[[], None]) -> SlurmError | None:
    try:
        write()
    except SlurmError as error:
        return error
    return None


def _read_back(
    backend: Backend,
    name: str,
    outcome: Outcome,
    error: SlurmError | None,
    verify: Callable[[NodeState], Stop | None],
) -> Outcome:
    """Say what stands there now: a write that timed out may have been done, one that was accepted may be lost."""
    try:
        after = backend.node(name)
    except SlurmError as failure:
        return replace(outcome, detail=f"not read back: {failure}" if error is None else str(error))
    stop = verify(after)
    if stop is None:
        # Slurm refused because the node was in service already: somebody else was quicker.
        result = Result.IN_SERVICE if isinstance(error, InvalidTransition) else Result.WRITTEN
        return replace(outcome, result=result, after=after)
    if error is not None:
        return replace(outcome, detail=str(error), after=after)
    return replace(outcome, result=stop.result, detail=str(stop), after=after)


def _read(backend: Backend, name: str) -> tuple[float, float, NodeState]:
    asked = time.monotonic()
    state = backend.node(name)
    return asked, time.monotonic(), state


def _ms(since: float) -> float:
    return round((time.monotonic() - since) * 1000, 3)
