"""A change to a node happens only if nobody else owns it, and is read back before it is believed."""

from __future__ import annotations

import time

import pytest

from slurm.commands import Commands
from slurm.errors import Timeout
from slurm.ownership import OurRecord, Result, drain_if_free, renew_reason, replace_prolog_error, resume_if_ours
from slurm.reason import Owner
from slurm.state import NodeState
from tests.slurm.contract import HOSTILE, OURS
from tests.slurm.fake import FakeNode, FakeSlurm
from tests.slurm.recorded import RELEASES


@pytest.fixture(params=RELEASES)
def slurm(request: pytest.FixtureRequest) -> FakeSlurm:
    return FakeSlurm(request.param)


def _writes(slurm: FakeSlurm) -> int:
    return sum("update" in call for call in slurm.calls)


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["MAINTENANCE", "RESERVED"], "maintenance reservation"),
        (["POWERING_UP"], "powering up"),
        (["CLOUD", "POWERED_DOWN"], "powered down"),
        (["REBOOT_REQUESTED"], "reboot requested"),
        (["INVALID_REG"], "registration refused"),
    ],
)
def test_nothing_is_written_while_others_work(slurm: FakeSlurm, flags: list[str], why: str) -> None:
    """E05, E06, E93, E94: planned reboots, power saving and maintenance."""
    slurm.nodes["n1"] = FakeNode(flags=flags)
    outcome = drain_if_free(slurm.backend, "n1", OURS)
    assert (outcome.result, _writes(slurm)) == (Result.HANDS_OFF, 0)
    assert why in outcome.detail


def test_ours_is_not_resumed_while_a_reboot_runs(slurm: FakeSlurm) -> None:
    """E05: Slurm appends to our reason; it is still ours, but not to be touched."""
    appended = OURS + " : reboot issued"
    slurm.nodes["n1"] = FakeNode("DOWN", ["DRAIN", "REBOOT_ISSUED"], appended, "slurm")
    assert resume_if_ours(slurm.backend, "n1", OurRecord(OURS)).result is Result.HANDS_OFF
    slurm.nodes["n1"] = FakeNode("DOWN", ["DRAIN"], appended + " : reboot timed out", "slurm")
    assert resume_if_ours(slurm.backend, "n1", OurRecord(OURS)).result is Result.WRITTEN


def test_reserved_alone_does_not_protect_a_bad_node(slurm: FakeSlurm) -> None:
    """E06: RESERVED alone is no reason to refuse a drain."""
    slurm.nodes["n1"] = FakeNode(flags=["RESERVED"])
    assert drain_if_free(slurm.backend, "n1", OURS).result is Result.WRITTEN


def test_a_left_over_reason_does_not_protect_a_node_in_service(slurm: FakeSlurm) -> None:
    """E01: on 24.11 an administrator's old reason stays on a node that is in service."""
    slurm.nodes["n1"] = FakeNode(reason="ADMIN SHUTDOWN")
    assert drain_if_free(slurm.backend, "n1", OURS).result is Result.WRITTEN


@pytest.mark.parametrize("quote", ['"', "'"])
def test_ours_in_quotation_marks_is_left_for_repair(slurm: FakeSlurm, quote: str) -> None:
    """E98: not ours word for word, so neither written over nor resumed, but said."""
    slurm.nodes["n1"] = FakeNode(flags=["DRAIN"], reason=f"{quote}{OURS}{quote}")
    for outcome in (
        drain_if_free(slurm.backend, "n1", OURS),
        resume_if_ours(slurm.backend, "n1", OurRecord(OURS)),
    ):
        assert (outcome.result, _writes(slurm)) == (Result.KEPT, 0)
        assert "in quotation marks" in outcome.detail


def test_a_store_that_takes_long_makes_it_read_again(slurm: FakeSlurm) -> None:
    """E01: an administrator who drains while we store what we read is seen, and wins."""

    def store(state: NodeState) -> None:
        slurm.nodes["n1"] = FakeNode(flags=["DRAIN"], reason="ADMIN SHUTDOWN")
        deadline = time.monotonic() + 0.1
        while time.monotonic() < deadline:
            pass

    outcome = drain_if_free(slurm.backend, "n1", OURS, store=store)
    assert (outcome.result, outcome.owner, _writes(slurm)) == (Result.KEPT, Owner.OTHER, 0)
    assert slurm.nodes["n1"].reason == "ADMIN SHUTDOWN"


def test_a_store_that_fails_stops_the_write(slurm: FakeSlurm) -> None:
    def store(state: NodeState) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        drain_if_free(slurm.backend, "n1", OURS, store=store)
    assert _writes(slurm) == 0


def test_who_may_not_write_any_more_is_stopped_right_before_the_write(slurm: FakeSlurm) -> None:
    def gone() -> None:
        raise PermissionError("another server leads")

    slurm.nodes["n2"] = FakeNode(flags=["DRAIN"], reason=OURS)
    with pytest.raises(PermissionError, match="another server"):
        drain_if_free(slurm.backend, "n1", OURS, fence=gone)
    with pytest.raises(PermissionError, match="another server"):
        resume_if_ours(slurm.backend, "n2", OurRecord(OURS), fence=gone)
    assert _writes(slurm) == 0


def test_a_reason_of_ours_is_renewed_only_while_it_stands(slurm: FakeSlurm) -> None:
    newer = OURS.replace("gpu_lost", "gpu_gone")
    record = OurRecord(newer, OURS)
    slurm.nodes["n1"] = FakeNode(flags=["DRAIN"], reason=OURS)
    assert renew_reason(slurm.backend, "n1", record).result is Result.WRITTEN
    assert slurm.nodes["n1"].reason == newer
    assert renew_reason(slurm.backend, "n1", record).result is Result.ALREADY_OURS
    slurm.nodes["n1"] = FakeNode(flags=["DRAIN"], reason="ticket 12")
    assert renew_reason(slurm.backend, "n1", record).result is Result.KEPT
    slurm.nodes["n1"] = FakeNode()
    assert renew_reason(slurm.backend, "n1", record).result is Result.IN_SERVICE
    slurm.nodes["n1"] = FakeNode(flags=["DRAIN"], reason=OURS)
    assert resume_if_ours(slurm.backend, "n1", record).result is Result.WRITTEN, "not renewed yet, and ours"


class _Overtaken(Commands):
    """Somebody else writes between our write and our reading back."""

    def drain(self, name: str, reason: str) -> None:
        super().drain(name, reason)
        super().drain(name, "ticket 12")


def test_a_lost_race_is_seen(slurm: FakeSlurm) -> None:
    """E11: somebody wrote right after us; what is read back is not ours, and it is not fought over."""
    outcome = drain_if_free(_Overtaken(slurm.run), "n1", OURS)
    assert outcome.result is Result.LOST_RACE
    assert "ticket 12" in outcome.detail
    assert slurm.nodes["n1"].reason == "ticket 12"


def test_a_resume_by_somebody_else_is_not_claimed(slurm: FakeSlurm) -> None:
    slurm.nodes["n1"] = FakeNode(flags=["DRAIN"], reason=OURS)
    slurm.before_update = lambda name: slurm.nodes.__setitem__(name, FakeNode())
    assert resume_if_ours(slurm.backend, "n1", OurRecord(OURS)).result is Result.IN_SERVICE


def test_an_administrator_who_resumes_meanwhile_is_not_drained_over(slurm: FakeSlurm) -> None:
    """E108: the reason of a "Prolog error" is replaced without touching the state."""
    slurm.nodes["n1"] = FakeNode(flags=["DRAIN"], reason="Prolog error", user="slurm")
    slurm.before_update = lambda name: slurm.nodes.__setitem__(name, FakeNode())
    outcome = replace_prolog_error(slurm.backend, "n1", OURS, we_refused=True)
    assert outcome.result is Result.LOST_RACE
    assert slurm.nodes["n1"].flags == []


@pytest.mark.parametrize(
    "reason", ["Epilog error", "Kill task failed", "Not responding", "Prolog error, bad mount", "prolog error"]
)
def test_other_reasons_of_slurm_are_not_replaced(slurm: FakeSlurm, reason: str) -> None:
    """E15, E66: they say what happened; ours would hide it."""
    slurm.nodes["n1"] = FakeNode(flags=["DRAIN"], reason=reason, user="slurm")
    assert replace_prolog_error(slurm.backend, "n1", OURS, we_refused=True).result is Result.KEPT


class _Slow(Commands):
    """The controller does what it is told, but its answer comes too late."""

    def drain(self, name: str, reason: str) -> None:
        super().drain(name, reason)
        raise Timeout("scontrol update", 3)


def test_a_write_that_timed_out_but_was_done_counts(slurm: FakeSlurm) -> None:
    """E02: slurmctld was slow, not deaf."""
    assert drain_if_free(_Slow(slurm.run), "n1", OURS).result is Result.WRITTEN


@pytest.mark.parametrize("step", ["scontrol show node", "scontrol update"])
def test_trouble_with_slurm_is_a_failure_that_names_the_step(slurm: FakeSlurm, step: str) -> None:
    """E02: a time-out in talking to Slurm is said as such."""
    slurm.refuse[step] = Timeout(step, 3)
    slurm.nodes["n2"] = FakeNode(flags=["DRAIN"], reason=HOSTILE)
    for outcome in (
        drain_if_free(slurm.backend, "n1", OURS),
        resume_if_ours(slurm.backend, "n2", OurRecord(HOSTILE)),
    ):
        assert outcome.result is Result.FAILED
        assert outcome.detail == f"{step} did not end within 3 s"
