"""No reason that is not ours is ever written over, and no node is resumed whose present reason is not ours.

Slurm has no compare-and-set. Every change here reads, lets the caller store what was read, reads again if that took
too long, writes at once, and reads back. What remains is the time between Slurm's answer and its next request,
reported in each `Outcome`; a writer who falls into it is seen when the text that is read back is not ours.
"""

from __future__ import annotations

import enum
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from slurm.backend import Backend
from slurm.errors import InvalidTransition, SlurmError
from slurm.reason import Owner, needs_repair, owner_of, parse
from slurm.state import NodeState, Reason

MAX_GAP = 0.05  # seconds between what was read and the write
PROLOG_ERROR = "Prolog error"
KILL_FAILED = "Kill task failed"
SLURM_USERS = frozenset({"slurm", "root"})

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


@dataclass(frozen=True, slots=True)
class OurRecord:
    """The reason that our record says we wrote on a node; `before`: the one that it replaces, should it still stand."""

    text: str
    before: str = ""


class _Stop(Exception):
    """The node's present state forbids the change."""

    def __init__(self, result: Result, detail: str) -> None:
        super().__init__(detail)
        self.result = result


def drain_if_free(
    backend: Backend, name: str, reason: str, *, store: Store | None = None, fence: Fence | None = None
) -> Outcome:
    """Drain the node unless it is out of service already or somebody works on it.

    A person's drain through us may take over an automatic one of ours, so that it is not resumed automatically.
    """
    wanted = parse(reason)
    by_person = wanted is not None and wanted.owner is Owner.PERSON_THROUGH_US

    def judge(state: NodeState) -> None:
        owner = owner_of(state)
        if owner is Owner.OURS_AUTOMATIC and not by_person:
            raise _Stop(Result.ALREADY_OURS, f"node {name} is drained by us already: {_reason(state)}")
        if owner not in (None, Owner.OURS_AUTOMATIC):
            raise _Stop(Result.KEPT, _kept(name, state, owner))
        if state.hands_off:
            raise _Stop(Result.HANDS_OFF, f"node {name}: {state.hands_off}")

    return _change(backend, name, judge, lambda: backend.drain(name, reason), _stored(reason), store, fence)


def replace_prolog_error(
    backend: Backend,
    name: str,
    reason: str,
    *,
    we_refused: bool,
    store: Store | None = None,
    fence: Fence | None = None,
) -> Outcome:
    """Put our reason in the place of Slurm's bare "Prolog error", only where our record shows our refusal.

    Without that record the error may be a lost message or another tool's prolog, and says nothing about us.
    """

    def judge(state: NodeState) -> None:
        owner = owner_of(state)
        if owner is None:
            raise _Stop(Result.IN_SERVICE, f"node {name} is in service")
        if owner is Owner.OURS_AUTOMATIC:
            raise _Stop(Result.ALREADY_OURS, f"node {name} is drained by us already: {_reason(state)}")
        if _reason(state) != PROLOG_ERROR:
            raise _Stop(Result.KEPT, _kept(name, state, owner))
        if not we_refused:
            raise _Stop(Result.KEPT, f"node {name}: {PROLOG_ERROR}, and no refusal of ours is on record")
        if state.hands_off:
            raise _Stop(Result.HANDS_OFF, f"node {name}: {state.hands_off}")

    # The reason alone: a node that an administrator resumes in this moment must not be drained again.
    return _change(backend, name, judge, lambda: backend.set_reason(name, reason), _stored(reason), store, fence)


def renew_reason(
    backend: Backend, name: str, record: OurRecord, *, store: Store | None = None, fence: Fence | None = None
) -> Outcome:
    """Put the record's reason in the place of the one of ours that it replaces, as long as that one still stands."""

    def judge(state: NodeState) -> None:
        owner = owner_of(state)
        if owner is None:
            raise _Stop(Result.IN_SERVICE, f"node {name} is in service")
        if _reason(state) == record.text:
            raise _Stop(Result.ALREADY_OURS, f"node {name} shows the new reason already")
        if not record.before or not _same(_reason(state), record.before):
            raise _Stop(Result.KEPT, _kept(name, state, owner))
        if state.hands_off:
            raise _Stop(Result.HANDS_OFF, f"node {name}: {state.hands_off}")

    write = partial(backend.set_reason, name, record.text)
    return _change(backend, name, judge, write, _stored(record.text), store, fence)


def resume_kill_failed(
    backend: Backend, name: str, seen: Reason, *, store: Store | None = None, fence: Fence | None = None
) -> Outcome:
    """Resume a node that Slurm drained since it could not kill a job, while just that reason stands: text, user, time.

    The caller has seen that nothing of the job is left. A reason that was written anew meanwhile is another event.
    """

    def judge(state: NodeState) -> None:
        if not state.out_of_service:
            raise _Stop(Result.IN_SERVICE, f"node {name} is in service")
        if not kill_failed(state) or state.reason != seen:
            raise _Stop(Result.KEPT, _kept(name, state, owner_of(state) or Owner.OTHER))
        if state.hands_off:
            raise _Stop(Result.HANDS_OFF, f"node {name}: {state.hands_off}")
        if not state.drained or not state.responding:
            raise _Stop(Result.HANDS_OFF, f"node {name} is {state}: not drained to the end")

    def given_back(state: NodeState) -> _Stop | None:
        if not state.out_of_service:
            return None
        lost = Result.FAILED if state.reason == seen else Result.LOST_RACE
        return _Stop(lost, f"node {name} is {state} after the resume: {_reason(state)!r}")

    return _change(backend, name, judge, lambda: backend.resume(name), given_back, store, fence)


def kill_failed(state: NodeState) -> bool:
    """Whether Slurm itself, and nobody since, took the node out because a job could not be killed."""
    reason = state.active_reason
    return reason is not None and reason.text == KILL_FAILED and reason.user in SLURM_USERS


def resume_if_ours(
    backend: Backend,
    name: str,
    record: OurRecord,
    *,
    by_person: bool = False,
    store: Store | None = None,
    fence: Fence | None = None,
) -> Outcome:
    """Resume the node if the reason that stands there now is the one our record says we wrote.

    A drain that a person asked us for is resumed only when a person asks (`by_person`).
    """

    def judge(state: NodeState) -> None:
        owner = owner_of(state)
        if owner is None:
            raise _Stop(Result.IN_SERVICE, f"node {name} is in service")
        if owner is not Owner.OURS_AUTOMATIC and not (by_person and owner is Owner.PERSON_THROUGH_US):
            raise _Stop(Result.KEPT, _kept(name, state, owner))
        if not stands(_reason(state), record):
            raise _Stop(Result.KEPT, f"node {name}: reason {_reason(state)!r} is not the one on record")
        if state.hands_off:
            raise _Stop(Result.HANDS_OFF, f"node {name}: {state.hands_off}")

    def given_back(state: NodeState) -> _Stop | None:
        if not state.out_of_service:
            return None
        if stands(_reason(state), record):
            return _Stop(Result.FAILED, f"node {name} is still {state} after the resume")
        return _Stop(Result.LOST_RACE, f"node {name} was taken out of service again: {_reason(state)!r}")

    return _change(backend, name, judge, lambda: backend.resume(name), given_back, store, fence)


def _change(
    backend: Backend,
    name: str,
    judge: Callable[[NodeState], None],
    write: Callable[[], None],
    verify: Callable[[NodeState], _Stop | None],
    store: Store | None,
    fence: Fence | None,
) -> Outcome:
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
    except _Stop as stop:
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
    verify: Callable[[NodeState], _Stop | None],
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


def _stored(reason: str) -> Callable[[NodeState], _Stop | None]:
    def verify(state: NodeState) -> _Stop | None:
        if not state.out_of_service:
            return _Stop(Result.LOST_RACE, f"node {state.name} is {state} right after the drain")
        if _reason(state) != reason:
            return _Stop(Result.LOST_RACE, f"node {state.name}: reason {_reason(state)!r} was read back, not ours")
        return None

    return verify


def _read(backend: Backend, name: str) -> tuple[float, float, NodeState]:
    asked = time.monotonic()
    state = backend.node(name)
    return asked, time.monotonic(), state


def _ms(since: float) -> float:
    return round((time.monotonic() - since) * 1000, 3)


def _reason(state: NodeState) -> str:
    return state.reason.text if state.reason else ""


def stands(current: str, record: OurRecord) -> bool:
    """Whether the text is the record's reason, or the one that it is about to replace."""
    return _same(current, record.text) or (bool(record.before) and _same(current, record.before))


def _same(current: str, recorded: str) -> bool:
    """Whether the text is the recorded one; Slurm may have appended " : reboot issued" to it."""
    ours = parse(current)
    return ours is not None and current.removesuffix(ours.appended) == recorded


def _kept(name: str, state: NodeState, owner: Owner) -> str:
    if needs_repair(_reason(state)):
        return f"node {name}: reason {_reason(state)!r} is ours in quotation marks; a person must repair it"
    return f"node {name} is {state} by {owner.value}: {_reason(state)!r}"
