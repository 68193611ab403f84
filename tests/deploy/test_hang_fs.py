"""A hanging mount holds its callers in the kernel until its server ends; a slow one answers late."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.simcluster import hang_fs, processes

pytestmark = pytest.mark.skipif(hang_fs.cannot_run() is not None, reason=str(hang_fs.cannot_run()))


@pytest.fixture
def where(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "mnt"
    folder.mkdir()
    yield folder
    hang_fs.unmount(folder)


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_caller_is_in_d_state_deaf_to_kill_and_freed_when_the_server_ends(where: Path) -> None:
    server = hang_fs.start(where)
    caller = subprocess.Popen([sys.executable, "-c", "import os, sys; os.statvfs(sys.argv[1])", str(where)])
    try:
        deadline = time.monotonic() + 30
        while state_of(caller.pid) != "D":
            assert time.monotonic() < deadline, "the caller never hung"
            time.sleep(0.02)
        caller.send_signal(signal.SIGKILL)
        with pytest.raises(subprocess.TimeoutExpired):
            caller.wait(0.5)
    finally:
        hang_fs.stop(server, where)
    assert caller.wait(30) == -signal.SIGKILL
    assert not processes.alive(server)
    assert str(where) not in Path("/proc/self/mountinfo").read_text()


def test_a_slow_mount_answers_late(where: Path) -> None:
    server = hang_fs.start(where, delay=0.2)
    try:
        began = time.monotonic()
        space = os.statvfs(where)
        assert time.monotonic() - began >= 0.2
        assert space.f_blocks == 1 << 20
        assert os.listdir(where) == []
    finally:
        hang_fs.stop(server, where)


def test_a_mount_point_that_does_not_exist_is_told(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file or directory"):
        hang_fs.start(tmp_path / "nowhere")


def test_stopping_never_ends_a_process_that_is_not_its_server(where: Path) -> None:
    hang_fs.stop(os.getpid(), where)
    hang_fs.stop(1, where)
