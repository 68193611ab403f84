"""What DCGM's engine and watches say is shown, drains nothing, and is missed where it was wanted."""

from __future__ import annotations

import json

import pytest

from checks import Host
from checks.catalog import load
from checks.judge.context import Context
from checks.judge.decide import decide
from checks.judge.policy import shipped
from checks.runner import run_check
from checks.wire import Finding
from deploy.simcluster import dcgm
from deploy.simcluster.dcgm import Bad
from tests.checks.dcgm.planted import PROGRAMS, node
from tests.fakes import BDFS, Plant


def look(name: str, host: Host, **options: object) -> list[Finding]:
    return list(run_check(load()[name], host, options).findings)


def health(plant: Plant, text: str, **options: object) -> list[Finding]:
    return look("dcgm_health", node(plant, {"health -c -j": text}), **options)


def test_a_healthy_node_says_nothing(plant: Plant) -> None:
    assert [f.status for f in health(plant, dcgm.health())] == ["ok"]


@pytest.mark.parametrize(("status", "code"), [("Fail", "dcgm_health_failure"), ("Warn", "dcgm_health_warning")])
def test_what_a_watch_saw_is_a_warning(plant: Plant, status: str, code: str) -> None:
    """E102: one verdict; the check of that part asks the driver itself, this takes no node away."""
    found = health(plant, dcgm.health([Bad(gpu=3, status=status, text="Detected 1 volatile double-bit ECC error")]))
    assert [(f.status, f.code, f.target) for f in found] == [("warn", code, BDFS[3])]
    assert "Memory system" in found[0].message and "double-bit" in found[0].message
    assert decide(found, shipped(), Context(occasion="interval")).wanted == "admit"


def test_a_system_can_be_left_out(plant: Plant) -> None:
    text = dcgm.health([Bad(gpu=3)], system="Thermal system")
    assert [f.status for f in health(plant, text, ignore=("Thermal system",))] == ["ok"]


def test_a_violation_of_no_time_is_none(plant: Plant) -> None:
    """E55."""
    text = dcgm.health([Bad(text="There were thermal violations totaling 0.0 seconds for GPU 0")])
    assert [f.status for f in health(plant, text)] == ["ok"]


@pytest.mark.parametrize(
    "text",
    [
        "Error: API version mismatch\n",
        "{",
        '{"body": {}}',
        '{"body": []}',
        '{"body": {"Overall Health": {"value": "Internal error"}}}',
        '{"body": {"Overall Health": {"value": "Failure"}}}',
        '{"status": "FAIL"}',
        "",
    ],
)
def test_no_answer_is_ours(plant: Plant, text: str) -> None:
    """E52."""
    assert [(f.status, f.blame) for f in health(plant, text)] == [("unknown", "self")]


@pytest.mark.parametrize("text", [dcgm.NO_ENGINE, "Error: Health watches not enabled. Please enable watches. \n"])
def test_without_an_engine_or_watches_it_does_not_apply(plant: Plant, text: str) -> None:
    assert [f.status for f in health(plant, text)] == ["skipped"]


def test_several_systems_of_one_gpu_are_told_each(plant: Plant) -> None:
    made = json.loads(dcgm.health([Bad(gpu=1)]))
    made["body"]["GPU"]["children"]["1"]["children"]["Errors"]["children"]["PCIe system"] = {"value": "Warning"}
    found = health(plant, json.dumps(made))
    assert {(f.code, f.target) for f in found} == {
        ("dcgm_health_failure", BDFS[1]),
        ("dcgm_health_warning", BDFS[1]),
    }


ASKED = "/nodevet-commands/systemctl_show_-p_LoadState,ActiveState,SubState_"


def engine(plant: Plant, states: dict[str, str], **options: object) -> list[Finding]:
    tree: dict[str, str | bytes] = dict(PROGRAMS)
    for unit in ("nvidia-dcgm.service", "dcgm.service"):
        load_state, active, sub = states.get(unit, "not-found inactive dead").split()
        tree[f"{ASKED}{unit}"] = f"LoadState={load_state}\nActiveState={active}\nSubState={sub}\n"
    return look("dcgm_engine", plant(tree), **options)


@pytest.mark.parametrize(
    ("states", "required", "expected"),
    [
        ({"nvidia-dcgm.service": "loaded active running"}, True, "ok"),
        ({"dcgm.service": "loaded active running"}, True, "ok"),
        ({"nvidia-dcgm.service": "loaded activating start"}, True, "ok"),
        ({"nvidia-dcgm.service": "loaded failed failed"}, False, "dcgm_engine_down"),
        ({"nvidia-dcgm.service": "loaded inactive dead"}, False, "not_applicable"),
        ({"nvidia-dcgm.service": "loaded inactive dead"}, True, "dcgm_engine_down"),
        ({}, False, "not_applicable"),
        ({}, True, "dcgm_engine_down"),
    ],
)
def test_an_engine_is_missed_where_it_was_wanted(
    plant: Plant, states: dict[str, str], required: bool, expected: str
) -> None:
    """Rule 4: nobody says that a stopped engine should run, unless the site does."""
    found = engine(plant, states, required=required)
    assert [f.code for f in found] == [expected]
    assert all((f.status, f.blame) == ("warn", "config") for f in found if f.code == "dcgm_engine_down")


def test_without_dcgm_nothing_is_asked(plant: Plant) -> None:
    for name in ("dcgm_engine", "dcgm_health"):
        assert [f.message for f in look(name, plant({}))] == ["DCGM is not installed"]


def test_systemd_that_does_not_tell_is_ours(plant: Plant) -> None:
    tree: dict[str, str | bytes] = {**PROGRAMS, f"{ASKED}nvidia-dcgm.service": "garbage\n"}
    assert [(f.status, f.blame) for f in look("dcgm_engine", plant(tree))] == [("unknown", "self")]
