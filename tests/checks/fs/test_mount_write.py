"""Writing is tried with one new file, as an ordinary account, and nobody can put anything under its hands."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pytest

from checks import CHECKS, Finding, Host
from checks.runner import run_check
from tests.fakes import Plant, planter

INFO = "/proc/self/mountinfo"
NFS = "40 22 0:45 / /scratch rw,relatime - nfs4 storage:/s rw\n"
PASSWD = "root:x:0:0::/root:/bin/sh\nnodevet:x:64123:64123::/:/bin/false\n"
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another account")


def tried(host: Host, user: str = "", folder: str = "/scratch/probe") -> Finding:
    (found,) = run_check(CHECKS["mount_write"], host, {"folders": (folder,), "user": user}).findings
    return found


@pytest.fixture
def host(plant: Plant) -> Host:
    made = plant({INFO: NFS, "/etc/passwd": PASSWD, "/scratch/other": ""})
    made.path("/scratch/probe").mkdir(mode=0o700)
    return made


def test_it_writes_and_leaves_nothing(host: Host) -> None:
    assert tried(host).status == "ok"
    assert os.listdir(host.path("/scratch/probe")) == []


def test_nothing_named_nothing_written(host: Host) -> None:
    (found,) = run_check(CHECKS["mount_write"], host).findings
    assert found.status == "skipped"


def test_a_link_in_place_of_the_folder_or_on_the_way_is_not_followed(host: Host) -> None:
    """Rule 8: in a folder that everybody may write to a user makes the link first."""
    host.path("/target").mkdir()
    host.path("/scratch/link").symlink_to(host.path("/target"))
    host.path("/scratch/way").symlink_to(host.path("/scratch"))
    for folder in ("/scratch/link", "/scratch/way/probe", "/scratch/../scratch/probe"):
        assert tried(host, folder=folder).code == "mount_write_refused", folder
    assert os.listdir(host.path("/target")) == []


@pytest.mark.parametrize(("mode", "expected"), [(0o777, "mount_write_refused"), (0o1777, "ok"), (0o755, "ok")])
def test_a_folder_that_others_may_write_to_must_be_sticky(host: Host, mode: int, expected: str) -> None:
    host.path("/scratch/probe").chmod(mode)
    assert tried(host).code == expected


@AS_ROOT
def test_the_named_account_tries_and_not_root() -> None:
    """Root is nobody on a server that squashes it; root's own rights would hide what the account meets."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        host = planter(root)({INFO: NFS, "/etc/passwd": PASSWD, "/scratch/other": ""})
        probe = host.path("/scratch/probe")
        probe.mkdir(mode=0o700)
        assert tried(host, "nodevet").code == "mount_write_refused"
        os.chown(probe, 64123, 64123)
        assert tried(host, "nodevet").code == "ok"
        (root / "after").touch()
        assert (root / "after").stat().st_uid == 0


@AS_ROOT
def test_an_account_that_does_not_exist_is_our_trouble(host: Host) -> None:
    found = tried(host, "nobody-here")
    assert (found.status, found.blame) == ("unknown", "self")


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (errno.ENOSPC, ("mount_write_full", "warn", "shared")),
        (errno.EDQUOT, ("mount_write_full", "warn", "shared")),
        (errno.EROFS, ("mount_write_refused", "warn", "config")),
        (errno.EACCES, ("mount_write_refused", "warn", "config")),
        (errno.ESTALE, ("mount_stale", "fail", "node")),
        (errno.EIO, ("mount_broken", "fail", "shared")),
        (errno.ESHUTDOWN, ("mount_evicted", "fail", "shared")),
        (errno.EINTR, ("mount_untold", "unknown", "self")),
    ],
)
def test_each_error_of_a_write_has_its_meaning(
    host: Host, monkeypatch: pytest.MonkeyPatch, number: int, expected: tuple[str, str, str]
) -> None:
    """E116: statfs is answered and a write is not."""

    def refuse(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    found = tried(host)
    assert (found.code, found.status, found.blame) == expected


def test_what_a_broken_try_left_is_taken_away_by_the_next(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", lambda *a, **k: os.stat("/nowhere/at/all"))
        assert tried(host).code == "mount_write_refused"
    assert len(os.listdir(host.path("/scratch/probe"))) == 1
    assert tried(host).code == "ok"
    assert os.listdir(host.path("/scratch/probe")) == []


def test_what_comes_back_is_compared(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pread", lambda *_: b"something else")
    found = tried(host)
    assert (found.code, found.status, found.blame) == ("mount_write_wrong", "warn", "shared")
