"""Space and inodes only ever warn; a disk that turns read-only or fails is a fault."""

from __future__ import annotations

import os

import pytest

from checks import CHECKS, Host
from checks.fs.disk_space import INODES, LOW, disk_space
from checks.fs.space import Least
from checks.runner import run_check
from tests.fakes import Plant

INFO = "/proc/self/mountinfo"
LOCAL = "22 1 8:2 / / rw,relatime - ext4 /dev/sda2 {}\n"
LEAST = Least(LOW, INODES, 5.0, 5.0)


def space(*, free: int, inodes: int, total: int = 1000) -> os.statvfs_result:
    # bsize frsize blocks bfree bavail files ffree favail flag namemax
    return os.statvfs_result((4096, 4096, total, free, free, total, inodes, inodes, 0, 255))


@pytest.mark.parametrize(
    ("free", "inodes", "expected"),
    [
        (500, 500, ["ok"]),
        (50, 50, ["ok"]),
        (49, 500, ["disk_space_low"]),
        (500, 10, ["disk_inodes_low"]),
        (0, 0, ["disk_space_low", "disk_inodes_low"]),
    ],
)
def test_judges_free_space_and_inodes(free: int, inodes: int, expected: list[str]) -> None:
    """Rule 8: a full /tmp is a warning, whoever filled it."""
    found = list(LEAST.judge("/tmp", space(free=free, inodes=inodes)))
    assert [f.code for f in found] == expected
    assert {f.status for f in found} <= {"ok", "warn"}


def test_a_file_system_without_blocks_has_none_to_run_out_of() -> None:
    assert [f.code for f in LEAST.judge("/x", space(free=0, inodes=0, total=0))] == ["ok"]


def codes(host: Host) -> list[str]:
    return [f.code for f in disk_space(host, min_free_pct=0, min_free_inodes_pct=0)]


def test_turning_read_only_is_a_fault(plant: Plant) -> None:
    host = plant({INFO: LOCAL.format("rw")})
    assert codes(host) == ["ok"]
    host.path(INFO).write_text(LOCAL.format("ro,errors=remount-ro"))
    assert codes(host) == ["disk_turned_read_only", "ok"]


def test_a_disk_that_was_always_read_only_is_a_matter_of_settings(plant: Plant) -> None:
    assert codes(plant({INFO: LOCAL.format("ro")})) == ["disk_read_only", "ok"]


@pytest.mark.parametrize(("path", "text"), [("/home", "no local file system"), ("/none", "does not exist")])
def test_skips_what_is_not_local_or_not_there(plant: Plant, path: str, text: str) -> None:
    """E17: a remote file system is never touched by a question about disks."""
    info = LOCAL.format("rw") + "40 22 0:45 / /home rw - nfs4 storage:/home rw\n"
    (found,) = run_check(CHECKS["disk_space"], plant({INFO: info}), {"paths": (path,)}).findings
    assert (found.status, text in found.message) == ("skipped", True)


def test_looks_at_this_very_machine() -> None:
    found = run_check(CHECKS["disk_space"], Host()).findings
    assert {f.target for f in found} == {"/"}
    assert "unknown" not in {f.status for f in found}


@pytest.mark.parametrize("kind", ["squashfs", "erofs", "iso9660"])
def test_a_read_only_image_is_always_full(plant: Plant, kind: str) -> None:
    """Like E22: the image that a diskless node runs from has no space by design."""
    host = plant({INFO: f"22 1 8:2 / / ro,relatime - {kind} /dev/loop0 ro\n"})
    (found,) = run_check(CHECKS["disk_space"], host).findings
    assert (found.status, kind in found.message) == ("skipped", True)


def test_a_link_to_a_remote_file_system_is_left_to_mount(plant: Plant) -> None:
    """Like E17: /tmp is a link into a shared file system, whose server may hang."""
    remote = LOCAL.format("rw") + "40 22 0:45 / /lustre rw - lustre mgs:/l rw\n"
    host = plant({INFO: remote, "/lustre/tmp/file": "", "/tmp": "-> /lustre/tmp"})
    (found,) = run_check(CHECKS["disk_space"], host, {"paths": ("/tmp",)}).findings
    assert (found.status, "see mount" in found.message) == ("skipped", True)


def test_another_file_system_in_its_place_did_not_turn_read_only(plant: Plant) -> None:
    """Rule 1: an operator mounts a read-only copy over the path; no disk failed."""
    host = plant({INFO: LOCAL.format("rw")})
    list(disk_space(host))
    host.path(INFO).write_text("23 1 8:17 / / ro,relatime - ext4 /dev/sdb1 ro\n")
    assert next(f.code for f in disk_space(host) if f.status != "ok") == "disk_read_only"
