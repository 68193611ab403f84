"""The whole set-up, without an index: done once, quick and without a trace the second time, undone by clean."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.wheelhouse import ROOT, repack


@dataclass(frozen=True, slots=True)
class Checkout:
    """A copy of this repository with a lock of two packages, and the place of its environment."""

    root: Path
    base: Path
    wheels: Path
    private: bool

    def run(self, script: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run one of the set-up's scripts as make does."""
        return subprocess.run(self.argv(script), env=self.env | env, capture_output=True, text=True, timeout=400)

    def argv(self, script: str) -> list[str]:
        """The command of one of the set-up's scripts."""
        return ["sh", str(self.root / "deploy/setup" / script)]

    @property
    def env(self) -> dict[str, str]:
        """No index, no torch, its own place for the environment."""
        pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels), "PIP_CONFIG_FILE": os.devnull}
        keep = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "NODEVET_"))}
        return keep | pip | {"TORCH": "0", "NODEVET_SETUP_BASE": str(self.base), "NODEVET_ANYWAY": "1"}

    def stamps(self) -> dict[str, int]:
        """When everything that set-up made was last changed."""
        return {str(path): path.lstat().st_mtime_ns for path in self.base.rglob("*") if path.name != "lock"}


@pytest.fixture(scope="module", params=["readable", "private"])
def checkout(request: pytest.FixtureRequest) -> Iterator[Checkout]:
    """A checkout that others can read, and one that they cannot; the tests below go through its life in order."""
    base = Path(tempfile.mkdtemp(prefix="nodevet-test-", dir="/var/tmp"))
    base.chmod(0o755)
    root = base / "src" / "a check out"
    shutil.copytree(ROOT, root, ignore=shutil.ignore_patterns(".*", "__pycache__", "tests", "build", "*.egg-info"))
    (base / "src").chmod(0o700 if request.param == "private" else 0o755)
    wheels, place = base / "wheels", base / "place"
    wheels.mkdir()
    place.mkdir()
    lock = [repack(name, wheels).name.split("-")[:2] for name in ("setuptools", "msgspec")]
    (root / "deploy/setup/requirements.lock").write_text("".join(f"{name}=={version}\n" for name, version in lock))
    yield Checkout(root, place, wheels, request.param == "private")
    shutil.rmtree(base)


def test_a_virtual_environment_of_somebody_else_is_left_alone(checkout: Checkout) -> None:
    (checkout.root / ".venv").mkdir()
    done = checkout.run("setup.sh")
    assert done.returncode == 1
    assert "is there and not ours" in done.stderr
    (checkout.root / ".venv").rmdir()


def test_the_first_time_makes_an_environment_that_every_user_can_read(checkout: Checkout) -> None:
    for number, owner in ((1, checkout.base / "gone"), (2, checkout.root)):
        (checkout.base / f"nodevet-venv-{number}").mkdir()
        (checkout.base / f"nodevet-setup-{number}").mkdir()
        (checkout.base / f"nodevet-setup-{number}/changes").write_text(f"package p{number}\nlink {owner}/.venv\n")
    done = checkout.run("setup.sh")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in checkout.base.glob("*-[12]")} == {"nodevet-venv-2", "nodevet-setup-2"}
    for path in checkout.base.glob("*-2"):
        shutil.rmtree(path)
    assert ("other users cannot read" in done.stdout) == checkout.private
    venv = (checkout.root / ".venv").readlink()
    assert venv.parent == checkout.base
    assert (venv.stat().st_mode & 0o777) == 0o755
    where = [str(venv / "bin/python"), "-I", "-c", "import checks; print(checks.__file__)"]
    seen = subprocess.run(where, capture_output=True, text=True, cwd="/", timeout=60)
    assert Path(seen.stdout).is_relative_to(venv if checkout.private else checkout.root), seen.stderr
    changes = next(checkout.base.glob("*/changes")).read_text().splitlines()
    assert {"package p1", f"venv {venv}", f"link {checkout.root / '.venv'}"} <= set(changes)


def test_the_second_time_touches_nothing_and_asks_no_index(checkout: Checkout) -> None:
    # As the server leaves them, whose umask is strict.
    (checkout.root / "checks/__pycache__").mkdir(mode=0o700, exist_ok=True)
    (checkout.root / "checks/__pycache__").chmod(0o700)
    before = checkout.stamps()
    done = checkout.run("setup.sh", PIP_FIND_LINKS="/nonexistent")
    assert done.returncode == 0, done.stderr
    assert checkout.stamps() == before
    assert "ready" in done.stdout and "making" not in done.stdout and "installing" not in done.stdout


def test_a_changed_source_reaches_a_private_copy(checkout: Checkout) -> None:
    (checkout.root / "checks/planted.py").write_text('"""It is so."""\n')
    done = checkout.run("setup.sh")
    assert done.returncode == 0, done.stderr
    where = [str(checkout.root / ".venv/bin/python"), "-I", "-c", "import checks.planted"]
    assert subprocess.run(where, cwd="/", timeout=60).returncode == 0


def test_two_at_once_go_one_after_the_other(checkout: Checkout) -> None:
    with next(checkout.base.glob("nodevet-setup-*/lock")).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = subprocess.Popen(checkout.argv("setup.sh"), env=checkout.env, stdout=subprocess.PIPE, text=True)
        assert waiting.stdout is not None
        assert "waiting for it" in waiting.stdout.readline()
        assert waiting.poll() is None
    rest, _ = waiting.communicate(timeout=60)
    assert waiting.returncode == 0
    assert "ready" in rest


def test_clean_undoes_it(checkout: Checkout) -> None:
    changes = next(checkout.base.glob("*/changes"))
    changes.write_text(changes.read_text().replace("package p1\n", ""))
    done = checkout.run("clean.sh")
    assert done.returncode == 0, done.stderr
    assert list(checkout.base.iterdir()) == []
    assert not (checkout.root / ".venv").is_symlink()
