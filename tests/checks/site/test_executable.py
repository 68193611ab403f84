"""Executables in checks.d are run when nobody but root can change them, with bounds, as somebody who owns nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from checks import CHECKS, Host
from checks.catalog import load
from checks.runner import run_check
from checks.site.trust import candidates
from checks.wire import Finding
from tests.fakes import Plant

load()
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="executables of root need root")
NOBODY = 65534
Put = Callable[..., Path]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A checks.d that its users may read."""
    base = Path(tempfile.mkdtemp(prefix="nv-site-", dir="/tmp"))
    base.chmod(0o755)
    made = base / "checks.d"
    made.mkdir(mode=0o755)
    yield made
    shutil.rmtree(base)


@pytest.fixture
def put(folder: Path) -> Put:
    """Write one executable and its sidecar."""

    def write(name: str, script: str, beside: str | None = None, mode: int = 0o755) -> Path:
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(mode)
        if beside is not None:
            (folder / f"{name}.toml").write_text(beside)
        return path

    return write


def _ask(
    folder: Path, *names: str, host: Host | None = None, limit: float = 5.0, user: str = "nobody"
) -> list[Finding]:
    options = {"names": names or ("one",), "directory": str(folder), "limit": limit, "user": user}
    return list(run_check(CHECKS["site_executable"], host or Host(), options).findings)


def _gone(pid: int, seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_it_runs_as_nobody_in_a_bare_room(folder: Path, put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    put("one", 'echo "$(id -u) $(id -G) $(pwd) ${SECRET_TOKEN-unset} $PATH $(ls /proc/self/fd | wc -l)"')
    (found,) = _ask(folder)
    uid, groups, where, token, path, descriptors = found.message.split()
    assert (found.status, uid, groups, where, token) == ("ok", str(NOBODY), str(NOBODY), "/", "unset")
    # 0 to 2 and what ls itself opens, and in a pipeline nothing that was inherited
    assert path.startswith("/usr/sbin") and int(descriptors) <= 4


def test_root_only_where_the_sidecar_says_so(folder: Path, put: Put) -> None:
    put("one", "id -u", 'user = "root"\nblame = "node"\n')
    assert _ask(folder)[0].message == "0"
    put("one", "echo broken; exit 2", 'user = "root"\nblame = "node"\n')
    assert [(f.status, f.blame, f.target) for f in _ask(folder)] == [("fail", "node", "one")]


def test_without_its_user_it_is_not_run_as_somebody_mightier(folder: Path, put: Put) -> None:
    put("one", "id -u")
    (found,) = _ask(folder, user="no-such-user")
    assert (found.status, found.code) == ("unknown", "site_executable_refused") and "no-such-user" in found.message


class Unprivileged(Host):
    """The live node seen by an ordinary user."""

    privileged = False


def test_what_needs_root_is_skipped_by_hand(folder: Path, put: Put) -> None:
    put("one", "echo fine", 'user = "root"\n')
    options = {"names": ("one",), "directory": str(folder)}
    (found,) = run_check(CHECKS["site_executable"], Unprivileged(), options, manual=True).findings
    assert (found.status, found.code) == ("skipped", "needs_root")


def _writable(path: Path) -> None:
    path.chmod(0o757)


def _of_a_group(path: Path) -> None:
    path.chmod(0o775)


def _somebodys(path: Path) -> None:
    os.chown(path, NOBODY, 0)


def _setuid(path: Path) -> None:
    path.chmod(0o4755)


def _a_link(path: Path) -> None:
    path.rename(path.with_name("real"))
    path.symlink_to("real")


@pytest.mark.parametrize("harm", [_writable, _of_a_group, _somebodys, _setuid, _a_link])
def test_what_others_could_have_put_there_is_refused(folder: Path, put: Put, harm: Callable[[Path], None]) -> None:
    path = put("one", f"touch {folder.parent}/ran; echo fine")
    folder.parent.chmod(0o755)
    assert _ask(folder)[0].status == "ok"
    harm(path)
    (found,) = _ask(folder)
    assert (found.status, found.blame, found.code) == ("unknown", "self", "site_executable_refused")
    assert "one" in candidates(folder), "refused, and nobody is told"


@pytest.mark.parametrize("harm", [_writable, _of_a_group, _somebodys])
@pytest.mark.parametrize("above", [0, 1])
def test_the_whole_path_counts(folder: Path, put: Put, harm: Callable[[Path], None], above: int) -> None:
    put("one", "echo fine")
    harm([folder, folder.parent][above])
    (found,) = _ask(folder)
    assert (found.status, found.code) == ("unknown", "site_executable_refused")


def test_a_link_on_the_way_is_refused(folder: Path, put: Put) -> None:
    put("one", "echo fine")
    (folder.parent / "link").symlink_to(folder)
    assert _ask(folder.parent / "link")[0].code == "site_executable_refused"
    assert _ask(Path("relative"))[0].code == "site_executable_refused"
    assert _ask(folder.parent / "x" / ".." / "checks.d")[0].code == "site_executable_refused"


@pytest.mark.parametrize(
    "beside",
    ['user = "daemon"', "usr = 'root'", "timeout = 3600", "interval = 0", 'blame = "self"', "= 3", 'user = ["root"]'],
)
def test_a_sidecar_that_cannot_be_read_refuses(folder: Path, put: Put, beside: str) -> None:
    put("one", "echo fine", beside)
    (found,) = _ask(folder)
    assert (found.status, found.code) == ("unknown", "site_executable_refused")
    assert "one.toml" in found.message


def test_a_sidecar_of_somebody_else_makes_nobody_root(folder: Path, put: Put) -> None:
    put("one", "id -u", 'user = "root"\n')
    os.chown(folder / "one.toml", NOBODY, NOBODY)
    assert _ask(folder)[0].code == "site_executable_refused"


@pytest.mark.parametrize("script", ["sleep 100", "trap '' TERM; sleep 100 & wait; sleep 100", "while :; do :; done"])
def test_one_that_does_not_end_is_ended_with_its_children(folder: Path, put: Put, script: str) -> None:
    # The sticky, world-writable place is where nobody can write its ids.
    note = Path(tempfile.mkstemp(prefix="nv-site-pid-", dir="/tmp")[1])
    os.chown(note, NOBODY, NOBODY)
    put("one", f"echo $$ >{note}; sleep 200 & echo $! >>{note}; echo fine; {script}")
    started = time.monotonic()
    (found,) = _ask(folder, limit=0.5)
    took = time.monotonic() - started
    pids = [int(line) for line in note.read_text().split()]
    note.unlink()
    assert (found.status, found.blame, found.code) == ("unknown", "self", "site_executable_slow")
    assert took < 20 and len(pids) == 2 and all(map(_gone, pids))


def test_a_child_that_keeps_the_pipe_open_holds_nobody_up(folder: Path, put: Put) -> None:
    put("one", "sleep 300 & echo fine")
    started = time.monotonic()
    (found,) = _ask(folder, limit=60.0)
    assert (found.status, found.message) == ("ok", "fine") and time.monotonic() - started < 30


def test_a_flood_is_cut_off(folder: Path, put: Put) -> None:
    put("one", "yes fine")
    started = time.monotonic()
    (found,) = _ask(folder, limit=60.0)
    assert (found.status, found.code) == ("unknown", "site_executable_garbled") and "65536" in found.message
    assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    "script", ["exit 0", "echo what; exit 7", "kill -SEGV $$", 'echo \'{"state": "OK"}\'', "cat /dev/null"]
)
def test_no_answer_is_never_a_pass(folder: Path, put: Put, script: str) -> None:
    """E52."""
    put("one", script)
    (found,) = _ask(folder)
    assert (found.status, found.blame, found.code) == ("unknown", "self", "site_executable_garbled")


def test_one_that_cannot_be_started(folder: Path, put: Put) -> None:
    path = put("one", "")
    path.write_text("#!/no/such/interpreter\n")
    assert _ask(folder)[0].code == "site_executable_refused"
    path.unlink()
    assert _ask(folder)[0].code == "site_executable_refused"


def test_which_files_are_meant(folder: Path, put: Put) -> None:
    put("one", "echo fine", "interval = 60\n")
    put("forgotten", "echo fine", "", mode=0o644)
    put("README", "text", mode=0o644)
    put(".hidden", "echo fine")
    put("a b", "echo fine")
    (folder / "sub").mkdir()
    assert candidates(folder) == ("a b", "forgotten", "one")
    assert [f.code for f in _ask(folder, "a b", "forgotten")] == ["site_executable_refused"] * 2
    assert candidates(folder / "nowhere") == ()
    assert candidates(folder / "one") == ("one",)


def test_a_tree_that_is_not_this_machine_is_not_asked(folder: Path, put: Put, plant: Plant) -> None:
    put("one", "echo fine")
    assert [f.status for f in _ask(folder, host=plant())] == ["skipped"]
