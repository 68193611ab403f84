"""What comes next, and what protects a node, case by case."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from api.controller.drain_record import DrainRecord
from api.remedy.judge import Nothing, Wish, choose, limited, protected
from api.remedy.record import RemedyRecord, RemedyState
from api.remedy.settings import RemedySettings, ResetGpu
from checks.wire import Finding
from slurm.reason import compose, compose_person
from slurm.state import NodeState, Reason
from tests.api.remedy.mending import GPU, policy

NOW = datetime(2026, 12, 1, 12, tzinfo=timezone.utc)
TOKEN = "ab12cd34"


def drain(token: str = TOKEN, owner: str = "ours-automatic") -> DrainRecord:
    values: dict[str, Any] = dict.fromkeys(DrainRecord.__dataclass_fields__)
    return DrainRecord(**{**values, "token": token, "owner": owner, "node": "n1"})


def state(base: str = "IDLE", *flags: str, text: str = "") -> NodeState:
    reason = Reason(text or compose("gpu_reset_required", "x", token=TOKEN))
    return NodeState("n1", base, flags=frozenset(flags or ("DRAIN",)), reason=reason)


def fault(code: str = "gpu_reset_required", target: str = GPU) -> Finding:
    return Finding(target=target, status="fail", code=code, blame="node")


def past(action: str, outcome: RemedyState, code: str = "gpu_reset_required", node: str = "n1") -> RemedyRecord:
    is_open = outcome in ("planned", "running")
    return RemedyRecord(
        1, "sim", node, action, (code,), (), "controller", True, TOKEN, outcome, "", "o", "", is_open, NOW, NOW, NOW
    )


def test_only_a_node_that_is_wholly_ours_may_be_disturbed() -> None:
    assert protected(state(), drain(), automatic=True) == ""
    assert protected(state("DOWN", "DRAIN"), drain(), automatic=True) == ""


@pytest.mark.parametrize(
    ("seen", "record"),
    [
        (None, drain()),
        (state(), None),
        (state(), drain("00000000")),
        (state("MIXED", "DRAIN"), drain()),
        (state("ALLOCATED", "DRAIN"), drain()),
        (state("IDLE", "DRAIN", "COMPLETING"), drain()),
        (state("IDLE", "CLOUD"), drain()),
        (state("DOWN", "CLOUD"), drain()),
        (state("IDLE", "DRAIN", "REBOOT_REQUESTED"), drain()),
        (state("IDLE", "DRAIN", "MAINT"), drain()),
        (state("UNKNOWN", "DRAIN"), drain()),
        (state(text="Kill task failed"), drain()),
        (state(text="rma 4711"), drain()),
        (state(text=compose_person("fan", token=TOKEN)), drain(owner="person-through-us")),
        (state(), drain(owner="person-through-us")),
    ],
)
def test_every_other_node_is_protected_from_automation(seen: NodeState | None, record: DrainRecord | None) -> None:
    assert protected(seen, record, automatic=True)


def test_what_a_person_drained_through_us_a_person_may_mend() -> None:
    seen, record = state(text=compose_person("fan", token=TOKEN)), drain(owner="person-through-us")
    assert protected(seen, record, automatic=False) == ""
    assert protected(state(text="rma 4711"), record, automatic=False)


@pytest.mark.parametrize(
    ("before", "then"),
    [
        ([], "reset-gpu"),
        ([past("reset-gpu", "done")], "reboot"),
        ([past("reset-gpu", "failed")], "reboot"),
        ([past("reset-gpu", "unknown")], "reboot"),
        ([past("reset-gpu", "busy")], "reset-gpu"),
        ([past("reset-gpu", "busy")] * 3, "reboot"),
        ([past("reset-gpu", "expired"), past("reset-gpu", "cancelled")], "reset-gpu"),
        ([past("reset-gpu", "dry_run")], "reset-gpu"),
        ([past("reboot", "done")], ""),
        ([past("reset-gpu", "done"), past("reboot", "failed")], ""),
        ([past("reset-gpu", "done", code="other")], "reset-gpu"),
    ],
)
def test_each_step_is_taken_once_and_none_after_a_harder_one(before: list[RemedyRecord], then: str) -> None:
    wish = choose(policy(), [fault()], before, RemedySettings())
    assert (wish.action if isinstance(wish, Wish) else "") == then
    assert isinstance(wish, Wish) or wish.person


def test_several_faults_need_a_step_each_and_the_hardest_is_taken() -> None:
    both = choose(policy(), [fault(), fault("gpu_reboot_required", "node")], [], RemedySettings())
    assert both == Wish("reboot", ("gpu_reboot_required", "gpu_reset_required"))
    one = choose(policy(), [fault(), fault("gpu_lost")], [], RemedySettings())
    assert isinstance(one, Nothing) and one.person and "gpu_lost" in one.why
    none = choose(policy(), [], [], RemedySettings())
    assert isinstance(none, Nothing) and not none.person


def test_the_gpus_that_fail_are_reset_or_all_where_the_board_needs_it() -> None:
    others = [fault(), fault(target="0000:9b:00.0")]
    assert choose(policy(), others, [], RemedySettings()) == Wish(
        "reset-gpu", ("gpu_reset_required",), (GPU, "0000:9b:00.0")
    )
    everything = RemedySettings(reset_gpu=ResetGpu(scope="all"))
    assert choose(policy(), others, [], everything) == Wish("reset-gpu", ("gpu_reset_required",))
    assert choose(policy(), [fault(target="GPU 3; rm")], [], RemedySettings()) == Wish(
        "reset-gpu", ("gpu_reset_required",)
    )


@pytest.mark.parametrize(
    ("seen", "automatic", "says"),
    [
        ([past("reset-gpu", "running", node="n2")], True, "at once"),
        ([past("reset-gpu", "running", node="n2")], False, "at once"),
        ([past("reset-gpu", "done")] * 2, True, "on this node within a day"),
        ([past("reset-gpu", "done")] * 2, False, ""),
        ([past("reset-gpu", "done", code="x", node=f"n{i}") for i in range(4)], True, "within an hour"),
        ([past("reset-gpu", "done", node=f"n{i}") for i in range(2, 4)], True, "for gpu_reset_required"),
        ([past("reset-gpu", "expired"), past("reset-gpu", "cancelled"), past("reset-gpu", "dry_run")], True, ""),
    ],
)
def test_limits(seen: list[RemedyRecord], automatic: bool, says: str) -> None:
    wish = Wish("reset-gpu", ("gpu_reset_required",), (GPU,))
    why = limited(RemedySettings(), "n1", wish, NOW + timedelta(seconds=60), seen, automatic=automatic)
    assert says in why and bool(says) == bool(why)
