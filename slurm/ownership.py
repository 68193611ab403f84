"""No reason that is not ours is ever written over, and no node is resumed whose present reason is not ours.

Every change here reads, lets the caller store what was read, reads again if that took too long, writes at once, and
reads back (`slurm.change`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from slurm.backend import Backend
from slurm.change import Fence, Outcome, Result, Stop, Store, change
from slurm.reason import Owner, needs_repair, owner_of, parse
from slurm.state import NodeState, Reason

__all__ = [
    "Fence",
    "OurRecord",
    "Outcome",
    "Result",
    "Store",
    "drain_if_free",
    "kill_failed",
    "renew_reason",
    "replace_prolog_error",
    "resume_if_ours",
    "resume_kill_failed",
    "stands",
]
PROLOG_ERROR = "Prolog error"
KILL_FAILED = "Kill task failed"
SLURM_USERS = frozenset({"slurm", "root"})


@dataclass(frozen=True, slots=True)
class OurRecord:
    """The reason that our record says we wrote on a node; `before`: the one that it replaces, should it still stand."""

    text: str
    before: str = ""


def drain_if_free(
    backend: Backend,
    name: str,
    reason: str,
    *,
    store: Store | None = None,
    fence: Fence | None = None,
    reserved: bool = False,
) -> Outcome:
    """Drain the node unless it is out of service already or somebody works on it.

    A person's drain through us may take over an automatic one of ours, so that it is not resumed automatically.
    ``reserved``: the maintenance reservation on the node is ours.
    """
    wanted = parse(reason)
    by_person = wanted is not None and wanted.owner is Owner.PERSON_THROUGH_US

    def judge(state: NodeState) -> None:
        owner = owner_of(state)
        if owner is Owner.OURS_AUTOMATIC and not by_person:
            raise Stop(Result.ALREADY_OURS, f"node {name} is drained by us already: {_reason(state)}")
        if owner not in (None, Owner.OURS_AUTOMATIC):
            raise Stop(Result.KEPT, _kept(name, state, owner))
        if hands := _hands_off(state, reserved):
            raise Stop(Result.HANDS_OFF, f"node {name}: {hands}")

    return change(backend, name, judge, lambda: backend.drain(name, reason), _stored(reason), store, fence)


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
            raise Stop(Result.IN_SERVICE, f"node {name} is in service")
        if owner is Owner.OURS_AUTOMATIC:
            raise Stop(Result.ALREADY_OURS, f"node {name} is drained by us already: {_reason(state)}")
        if _reason(state) != PROLOG_ERROR:
            raise Stop(Result.KEPT, _kept(name, state, owner))
        if not we_refused:
            raise Stop(Result.KEPT, f"node {name}: {PROLOG_ERROR}, and no refusal of ours is on record")
        if state.hands_off:
            raise Stop(Result.HANDS_OFF, f"node {name}: {state.hands_off}")

    # The reason alone: a node that an administrator resumes in this moment must not be drained again.
    return change(backend, name, judge, lambda: backend.set_reason(name, reason), _stored(reason), store, fence)


def renew_reason(
    backend: Backend, name: str, record: OurRecord, *, store: Store | None = None, fence: Fence | None = None
) -> Outcome:
    """Put the record's reason in the place of the one of ours that it replaces, as long as that one still stands."""

    def judge(state: NodeState) -> None:
        owner = owner_of(state)
        if owner is None:
            raise Stop(Result.IN_SERVICE, f"node {name} is in service")
        if _reason(state) == record.text:
            raise Stop(Result.ALREADY_OURS, f"node {name} shows the new reason already")
        if not record.before or not _same(_reason(state), record.before):
            raise Stop(Result.KEPT, _kept(name, state, owner))
        if state.hands_off:
            raise Stop(Result.HANDS_OFF, f"node {name}: {state.hands_off}")

    write = partial(backend.set_reason, name, record.text)
    return change(backend, name, judge, write, _stored(record.text), store, fence)


def resume_kill_failed(
    backend: Backend, name: str, seen: Reason, *, store: Store | None = None, fence: Fence | None = None
) -> Outcome:
    """Resume a node that Slurm drained since it could not kill a job, while just that reason stands: text, user, time.

    The caller has seen that nothing of the job is left. A reason that was written anew meanwhile is another event.
    """

    def judge(state: NodeState) -> None:
        if not state.out_of_service:
            raise Stop(Result.IN_SERVICE, f"node {name} is in service")
        if not kill_failed(state) or state.reason != seen:
            raise Stop(Result.KEPT, _kept(name, state, owner_of(state) or Owner.OTHER))
        if state.hands_off:
            raise Stop(Result.HANDS_OFF, f"node {name}: {state.hands_off}")
        if not state.drained or not state.responding:
            raise Stop(Result.HANDS_OFF, f"node {name} is {state}: not drained to the end")

    def given_back(state: NodeState) -> Stop | None:
        if not state.out_of_service:
            return None
        lost = Result.FAILED if state.reason == seen else Result.LOST_RACE
        return Stop(lost, f"node {name} is {state} after the resume: {_reason(state)!r}")

    return change(backend, name, judge, lambda: backend.resume(name), given_back, store, fence)


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
    reserved: bool = False,
) -> Outcome:
    """Resume the node if the reason that stands there now is the one our record says we wrote.

    A drain that a person asked us for is resumed only when a person asks (`by_person`). ``reserved``: the maintenance
    reservation on the node is ours.
    """

    def judge(state: NodeState) -> None:
        owner = owner_of(state)
        if owner is None:
            raise Stop(Result.IN_SERVICE, f"node {name} is in service")
        if owner is not Owner.OURS_AUTOMATIC and not (by_person and owner is Owner.PERSON_THROUGH_US):
            raise Stop(Result.KEPT, _kept(name, state, owner))
        if not stands(_reason(state), record):
            raise Stop(Result.KEPT, f"node {name}: reason {_reason(state)!r} is not the one on record")
        if hands := _hands_off(state, reserved):
            raise Stop(Result.HANDS_OFF, f"node {name}: {hands}")

    def given_back(state: NodeState) -> Stop | None:
        if not state.out_of_service:
            return None
        if stands(_reason(state), record):
            return Stop(Result.FAILED, f"node {name} is still {state} after the resume")
        return Stop(Result.LOST_RACE, f"node {name} was taken out of service again: {_reason(state)!r}")

    return change(backend, name, judge, lambda: backend.resume(name), given_back, store, fence)


def _hands_off(state: NodeState, reserved: bool) -> str | None:
    return replace(state, flags=state.flags - {"MAINT"}).hands_off if reserved else state.hands_off


def _stored(reason: str) -> Callable[[NodeState], Stop | None]:
    def verify(state: NodeState) -> Stop | None:
        if not state.out_of_service:
            return Stop(Result.LOST_RACE, f"node {state.name} is {state} right after the drain")
        if _reason(state) != reason:
            return Stop(Result.LOST_RACE, f"node {state.name}: reason {_reason(state)!r} was read back, not ours")
        return None

    return verify


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
