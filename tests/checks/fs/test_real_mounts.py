"""Real mounts of this very kernel are read and judged as it shows them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from checks import Host
from checks.fs.mount import mount
from checks.fs.mounts import mounts
from deploy.simcluster import hang_fs
from deploy.simcluster.waiting import wait_for

pytestmark = pytest.mark.skipif(hang_fs.cannot_run() is not None, reason="mounting needs root and /dev/fuse")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for mounts, which are taken away again."""
    yield tmp_path
    for where in (tmp_path / "a", tmp_path / "a", tmp_path / "a/below"):
        hang_fs.unmount(where)


def test_a_file_system_whose_process_has_died_is_this_nodes_trouble(folder: Path) -> None:
    """E116: listed still, and every call gives 'Transport endpoint is not connected'."""
    where = folder / "a"
    where.mkdir()
    pid = hang_fs.start(where, delay=0.0)
    try:
        assert list(mount(Host(), paths=(str(where),))) == []
        os.kill(pid, signal.SIGKILL)

        def dead() -> bool:
            return [f.code for f in mount(Host(), paths=(str(where),))] == ["mount_client_dead"]

        wait_for(dead, 20, lambda: "the mount still answers")
    finally:
        hang_fs.stop(pid, where)


def test_the_topmost_of_two_counts_and_what_it_hides_is_not_there(folder: Path) -> None:
    below = folder / "a/below"
    below.mkdir(parents=True)
    hang_fs.mount("lower", below, "tmpfs", "size=64k")
    assert mounts(Host())[str(below)].source == "lower"
    hang_fs.mount("middle", folder / "a", "tmpfs", "size=64k")
    hang_fs.mount("upper", folder / "a", "tmpfs", "size=64k,mode=0755")
    known = mounts(Host())
    assert known[str(folder / "a")].source == "upper"
    assert str(below) not in known
    (found,) = mount(Host(), paths=(str(below),))
    assert (found.code, "upper" not in found.message) == ("mount_absent", True)
