"""Arrays and NVMe disks are judged by the kernel's own tables and the disk's own log, in every known form."""

from __future__ import annotations

import json

import pytest

from checks.catalog import load
from checks.runner import run_check
from tests.fakes import Plant

WHOLE = "md0 : active raid1 sdb1[1] sda1[0]\n      1953382464 blocks super 1.2 [2/2] [UU]\n      bitmap: 0/15 pages\n"
DEGRADED = "md0 : active raid1 sdb1[1](F) sda1[0]\n      1953382464 blocks super 1.2 [2/1] [U_]\n"
REBUILD = (
    "md/data : active (auto-read-only) raid6 nvme3n1[4] nvme2n1[2] nvme1n1[1] nvme0n1[0]\n"
    "      7501212672 blocks super 1.2 level 6, 512k chunk, algorithm 2 [5/4] [UUU_U]\n"
    "      [==>..................]  recovery = 12.6% (315/2500) finish=127.5min speed=33440K/sec\n"
)
STRIPE_GONE = "md1 : active raid0 nvme1n1[1](F) nvme0n1[0]\n      7501212672 blocks super 1.2 512k chunks\n"
# Kernels since 6.0 say it of any array that can no longer serve all of its blocks.
BROKEN = "md3 : broken raid0 nvme1n1[1] nvme0n1[0]\n      7501212672 blocks super 1.2 512k chunks\n"
INACTIVE = "md2 : inactive nvme5n1[0](S)\n      3750606336 blocks super 1.2\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (WHOLE, [("md0", "ok")]),
        (DEGRADED, [("md0", "raid_degraded")]),
        (REBUILD, [("md/data", "raid_degraded")]),
        (STRIPE_GONE, [("md1", "raid_broken")]),
        (BROKEN, [("md3", "raid_broken")]),
        (BROKEN.replace("broken", "broken (read-only)"), [("md3", "raid_broken")]),
        (INACTIVE, [("md2", "raid_broken")]),
        (WHOLE + "\n" + STRIPE_GONE, [("md0", "ok"), ("md1", "raid_broken")]),
        ("", [("node", "not_applicable")]),
    ],
)
def test_judges_arrays(plant: Plant, text: str, expected: list[tuple[str, str]]) -> None:
    host = plant({"/proc/mdstat": f"Personalities : [raid1] [raid0]\n{text}\nunused devices: <none>\n"})
    found = run_check(load()["raid"], host).findings
    assert [(f.target, f.code) for f in found] == expected
    assert "12.6" in found[0].message or text is not REBUILD


def test_without_raid_in_the_kernel_it_does_not_apply(plant: Plant) -> None:
    (found,) = run_check(load()["raid"], plant({})).findings
    assert found.status == "skipped"


def disk(name: str, state: str = "live", transport: str = "pcie") -> dict[str, str | bytes]:
    return {f"/sys/class/nvme/{name}/state": f"{state}\n", f"/sys/class/nvme/{name}/transport": f"{transport}\n"}


@pytest.mark.parametrize(
    ("tree", "count", "expected"),
    [
        (disk("nvme0") | disk("nvme1"), 2, [("node", "ok")]),
        (disk("nvme0"), 2, [("node", "nvme_count_low")]),
        ({}, 2, [("node", "nvme_count_low")]),
        ({}, 0, [("node", "not_applicable")]),
        (disk("nvme0", "dead"), 1, [("nvme0", "nvme_not_live")]),
        (disk("nvme0") | disk("nvme1", "connecting", "tcp"), 1, [("node", "ok")]),
    ],
)
def test_judges_disks(plant: Plant, tree: dict[str, str | bytes], count: int, expected: list[tuple[str, str]]) -> None:
    found = run_check(load()["nvme"], plant(tree), {"count": count}).findings
    assert [(f.target, f.code) for f in found] == expected


LOG = "/nodevet-commands/nvme_smart-log_--output-format=json_.dev.nvme0"
GOOD = {"critical_warning": 0, "percent_used": 3, "avail_spare": 100, "spare_thresh": 10}
OTHER = {
    "critical_warning": {"value": 0, "available_spare": 0},
    "percentage_used": 3,
    "available_spare": 100,
    "available_spare_threshold": 10,
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (json.dumps(GOOD), ("ok", "ok", None)),
        (json.dumps(OTHER), ("ok", "ok", None)),
        (json.dumps(GOOD | {"percent_used": 104}), ("nvme_worn", "warn", "node")),
        (json.dumps(GOOD | {"avail_spare": 9}), ("nvme_worn", "warn", "node")),
        (json.dumps(GOOD | {"critical_warning": 8}), ("nvme_warning", "warn", "node")),
        ("{", ("nvme_unasked", "unknown", "self")),
        ("[]", ("nvme_unasked", "unknown", "self")),
        ('{"status": "FAIL"}', ("nvme_unasked", "unknown", "self")),
        (None, ("not_applicable", "skipped", "config")),
    ],
)
def test_reads_every_form_of_the_disks_log(
    plant: Plant, text: str | None, expected: tuple[str, str, str | None]
) -> None:
    """E52: an answer of another shape is not a pass."""
    host = plant(disk("nvme0") | ({} if text is None else {LOG: text}))
    (found,) = run_check(load()["nvme_wear"], host).findings
    assert (found.code, found.status, found.blame) == expected
