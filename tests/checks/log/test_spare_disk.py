"""A spare disk that a person pulls takes no node out of service; one with something mounted on it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks import CHECKS
from checks.judge.context import Context
from checks.judge.decide import decide
from checks.judge.policy import shipped
from checks.runner import run_check
from tests.checks.log.host_log import Log
from tests.fakes import Plant

GONE = "nvme nvme1: Removing after probe failure status: -19"
ROOT = "22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw\n"
PROC = "23 22 0:5 / /proc rw - proc proc rw\n"
SCRATCH = "24 22 259:5 / /scratch rw,relatime shared:2 - xfs /dev/nvme1n1 rw\n"
SWAPS = "Filename\tType\tSize\tUsed\tPriority\n"


def _wanted(plant: Plant, folder: Path, mountinfo: str, swaps: str = SWAPS, blocks: str = "nvme0n1p2") -> str:
    log = Log(plant, folder / "kmsg")
    root = log.host.path("/")
    for name, text in {"proc/self/mountinfo": mountinfo, "proc/1/mountinfo": mountinfo, "proc/swaps": swaps}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for block in blocks.split():
        (root / "sys/class/block" / block).mkdir(parents=True)
    log.write(GONE)
    found = run_check(CHECKS["kernel_events"], log.host).findings
    assert "disk_gone" in {f.code for f in found}, "it is always told"
    return decide(found, shipped(), Context("interval")).wanted


def test_a_spare_disk_that_is_pulled_drains_no_node(plant: Plant, tmp_path: Path) -> None:
    assert _wanted(plant, tmp_path, ROOT + PROC) == "admit"


@pytest.mark.parametrize(
    ("mountinfo", "swaps"),
    [
        (ROOT + PROC + SCRATCH, SWAPS),
        (ROOT + PROC, SWAPS + "/dev/nvme1n1p1 partition 1024 0 -2\n"),
        (ROOT.replace("nvme0n1p2", "mapper/vg-root") + PROC, SWAPS),
        (ROOT.replace("nvme0n1p2", "md127") + PROC, SWAPS),
        (ROOT + PROC + "25 22 0:40 / /tank rw - zfs tank rw\n", SWAPS),
        ("", SWAPS),
    ],
    ids=["scratch on it", "swap on it", "lvm", "raid", "zfs", "no list of mounts"],
)
def test_a_disk_that_may_be_in_use_drains_the_node(plant: Plant, tmp_path: Path, mountinfo: str, swaps: str) -> None:
    assert _wanted(plant, tmp_path, mountinfo, swaps, "nvme0n1p2 md127 dm-0") == "drain"
