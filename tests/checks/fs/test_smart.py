"""A disk's own word and its lost sectors are told; the exit status of the tool is no verdict."""

from __future__ import annotations

import json
from typing import Any

import pytest

from checks import Finding, Host
from checks.catalog import load
from checks.runner import run_check
from tests.fakes import Plant

ASKED = "/nodevet-commands/smartctl_-j_-n_standby_-H_-A_.dev."


def disk(name: str = "sda", vendor: str = "ATA", removable: int = 0) -> dict[str, str | bytes]:
    home = f"/sys/block/{name}"
    return {f"{home}/device/vendor": f"{vendor}     \n", f"{home}/removable": f"{removable}\n"}


def sata(*, passed: bool = True, replaced: int = 0, waiting: int = 0) -> dict[str, Any]:
    table = [
        {"id": 5, "name": "Reallocated_Sector_Ct", "raw": {"value": replaced}},
        {"id": 197, "name": "Current_Pending_Sector", "raw": {"value": waiting}},
        {"id": 194, "name": "Temperature_Celsius", "raw": {"value": 150323855392}},
    ]
    return {
        "smartctl": {"exit_status": 64},
        "smart_status": {"passed": passed},
        "ata_smart_attributes": {"table": table},
    }


def sas(*, passed: bool = True, defects: int = 0, unread: int = 0) -> dict[str, Any]:
    log = {"read": {"total_uncorrected_errors": unread, "errors_corrected_by_eccfast": 999}, "write": {}}
    return {"smart_status": {"passed": passed}, "scsi_grown_defect_list": defects, "scsi_error_counter_log": log}


def asked(host: Host, name: str = "sda") -> list[Finding]:
    return [f for f in run_check(load()["smart"], host).findings if f.target == name]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (json.dumps(sata()), ["ok"]),
        (json.dumps(sata(replaced=4000, waiting=3)), ["ok"]),
        (json.dumps(sata(passed=False)), ["disk_failing"]),
        (json.dumps(sas(defects=17, unread=2)), ["ok"]),
        (json.dumps(sas(passed=False)), ["disk_failing"]),
        (json.dumps({"smartctl": {"exit_status": 2, "messages": [{"string": "in STANDBY mode"}]}}), []),
        ("{", ["disk_unasked"]),
        ("[]", ["disk_unasked"]),
        ('{"ata_smart_attributes": {"table": [{"id": 5}]}}', ["disk_unasked"]),
    ],
)
def test_reads_both_kinds_of_disk_and_no_rubbish(plant: Plant, answer: str, expected: list[str]) -> None:
    """E52, E126: an answer of another shape is no pass, and an exit status no verdict."""
    found = asked(plant(disk() | {f"{ASKED}sda": answer}))
    assert [f.code for f in found] == expected
    assert {f.status for f in found} <= {"ok", "warn", "unknown"}


@pytest.mark.parametrize(
    ("before", "after"),
    [(sata(waiting=3), sata(waiting=4)), (sata(), sata(replaced=8)), (sas(unread=2), sas(unread=3))],
)
def test_lost_sectors_count_from_the_first_look_on(plant: Plant, before: object, after: object) -> None:
    host = plant(disk() | {f"{ASKED}sda": json.dumps(before)})
    assert [f.code for f in asked(host)] == ["ok"]
    host.path(f"{ASKED}sda").write_text(json.dumps(after))
    assert [(f.code, f.status, f.blame) for f in asked(host)] == [("disk_sectors_lost", "warn", "node")]


@pytest.mark.parametrize("tree", [disk(vendor="QEMU"), disk(removable=1), {}])
def test_what_is_no_disk_of_the_node_is_left_alone(plant: Plant, tree: dict[str, str | bytes]) -> None:
    (found,) = run_check(load()["smart"], plant(tree)).findings
    assert found.status == "skipped"


def test_without_the_tool_it_does_not_apply(plant: Plant) -> None:
    (found,) = run_check(load()["smart"], plant(disk())).findings
    assert (found.status, "not installed" in found.message) == ("skipped", True)


def test_many_disks_take_turns(plant: Plant) -> None:
    names = [f"sd{chr(97 + i)}" for i in range(20)]
    tree: dict[str, str | bytes] = {}
    for name in names:
        tree |= disk(name) | {f"{ASKED}{name}": json.dumps(sata())}
    host = plant(tree)
    first, second = ({f.target for f in run_check(load()["smart"], host).findings} for _ in range(2))
    assert len(first) == 16 and first | second == set(names)


def test_sectors_that_no_longer_wait_are_none_that_were_lost(plant: Plant) -> None:
    host = plant(disk() | {f"{ASKED}sda": json.dumps(sata(waiting=9))})
    for waiting in (9, 2, 9):
        host.path(f"{ASKED}sda").write_text(json.dumps(sata(waiting=waiting)))
        assert [f.code for f in asked(host)] == ["ok"], waiting


def test_another_disk_under_the_same_name_brings_its_own_past(plant: Plant) -> None:
    host = plant(disk() | {f"{ASKED}sda": json.dumps(sata()), "/sys/block/sda/device/wwid": "naa.1\n"})
    assert [f.code for f in asked(host)] == ["ok"]
    host.path("/sys/block/sda/device/wwid").write_text("naa.2\n")
    host.path(f"{ASKED}sda").write_text(json.dumps(sata(replaced=40)))
    assert [f.code for f in asked(host)] == ["ok"]
