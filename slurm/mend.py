"""A node that is drained under the reason on our record is rebooted, or kept drained after its boot, and no other."""

from __future__ import annotations

from functools import partial

from slurm.backend import Backend
from slurm.change import Fence, Outcome, Result, Stop, Store, change
from slurm.errors import SlurmError
from slurm.ownership import OurRecord, stands
from slurm.state import NodeState


def reboot_if_ours(
    backend: Backend, name: str, record: OurRecord, *, store: Store | None = None, fence: Fence | None = None
) -> Outcome:
    """Ask Slurm for a reboot under our own reason while that one stands; LOST_RACE with a window: it was asked anyway.

    No ``asap`` and no next state: the node is drained already, so it is rebooted at once, never over a job, and it
    comes back drained under our reason. Each of the two would have Slurm put it in service by itself, with
    ReturnToService=2 even after nextstate=down.
    """
    refused: list[SlurmError] = []

    def judge(state: NodeState) -> None:
        _still_ours(state, record)
        if not state.drained:
            raise Stop(Result.HANDS_OFF, f"node {name} is {state}: not drained to the end")

    def ask() -> None:
        try:
            backend.reboot(name, record.text, asap=False, then=None)
        except SlurmError as error:
            refused.append(error)
            raise

    def asked(state: NodeState) -> Stop | None:
        if refused:
            # The reason stood there before, so it proves nothing.
            return Stop(Result.FAILED, str(refused[0]))
        if not state.out_of_service or not stands(_text(state), record):
            return Stop(Result.LOST_RACE, f"node {name} is {state} by somebody else's hand: {_text(state)!r}")
        return None

    return change(backend, name, judge, ask, asked, store, fence)


def hold_if_ours(
    backend: Backend, name: str, record: OurRecord, *, store: Store | None = None, fence: Fence | None = None
) -> Outcome:
    """Drain a node that is down under our reason: with ReturnToService=2 it would be in service once it registers."""

    def judge(state: NodeState) -> None:
        _still_ours(state, record)
        if "DRAIN" in state.flags:
            raise Stop(Result.ALREADY_OURS, f"node {name} is drained by us already")

    def held(state: NodeState) -> Stop | None:
        if "DRAIN" in state.flags and stands(_text(state), record):
            return None
        return Stop(Result.LOST_RACE, f"node {name} is {state}: {_text(state)!r} was read back, not ours")

    return change(backend, name, judge, partial(backend.drain, name, record.text), held, store, fence)


def _still_ours(state: NodeState, record: OurRecord) -> None:
    if not state.out_of_service:
        raise Stop(Result.IN_SERVICE, f"node {state.name} is in service")
    if not stands(_text(state), record):
        raise Stop(Result.KEPT, f"node {state.name}: reason {_text(state)!r} is not the one on record")
    if state.hands_off:
        raise Stop(Result.HANDS_OFF, f"node {state.name}: {state.hands_off}")


def _text(state: NodeState) -> str:
    return state.reason.text if state.reason else ""
