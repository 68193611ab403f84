"""A disk that a person makes read-only for a maintenance takes no node out of service; one that met errors does."""

from __future__ import annotations

import pytest

from checks.fs.disk_space import disk_space
from checks.fs.mount import mount
from tests.fakes import Plant

LINE = "24 1 259:5 / / {},relatime - {} /dev/nvme1n1 {}\n"


@pytest.mark.parametrize(
    ("kind", "errors", "turned"),
    [("ext4", "0\n", False), ("ext4", "3\n", True), ("ext4", None, True), ("ext4", "?", True), ("btrfs", "0\n", True)],
)
def test_a_disk_made_read_only_for_a_maintenance(plant: Plant, kind: str, errors: str | None, turned: bool) -> None:
    tree = {"/proc/self/mountinfo": LINE.format("rw", kind, "rw")}
    host = plant(tree | ({"/sys/fs/ext4/nvme1n1/errors_count": errors} if errors else {}))
    assert not [f for f in (*disk_space(host), *mount(host, paths=("/",))) if "read_only" in f.code]
    host.path("/proc/self/mountinfo").write_text(LINE.format("ro", kind, "ro"))
    assert ("disk_turned_read_only" in {f.code for f in disk_space(host)}) is turned
    assert ("disk_turned_read_only" in {f.code for f in mount(host, paths=("/",))}) is turned
    assert turned or "disk_read_only" in {f.code for f in disk_space(host)}, "it is told all the same"
