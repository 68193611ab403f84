"""Another release's Debian is made once, kept, removed by make clean, and where it cannot be made that is said."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy/setup/release.sh"


def run(script: str, **env: str) -> subprocess.CompletedProcess[str]:
    settings = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **env}
    return subprocess.run(["sh", "-c", script], env=settings, capture_output=True, text=True, timeout=60)


def functions(tmp_path: Path) -> str:
    """The functions of the script, without what it does, over directories of the test's own."""
    text = SCRIPT.read_text().split('\nlocate "')[0].replace('"$(dirname "$0")"', f'"{SCRIPT.parent}"')
    path = tmp_path / "functions.sh"
    path.write_text(text)
    roots = tmp_path / "roots"
    roots.mkdir()
    places = {"STATE": tmp_path, "ROOT": ROOT, "ROOTS": roots, "WORK": tmp_path, "CHANGES": tmp_path / "changes"}
    settings = " ".join(f'{name}="{place}";' for name, place in places.items())
    return f'. "{path}"; {settings} ensure_packages() {{ :; }}; '


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_an_ordinary_user_is_told_and_nothing_is_done() -> None:
    done = run(f"exec setpriv --reuid 65534 --regid 65534 --clear-groups sh {SCRIPT} trixie")
    assert (done.returncode, done.stdout) == (77, "setup: only root can make another Debian\n")


@pytest.mark.parametrize("suite", ["", "../x", "sid;id"])
def test_a_name_that_is_no_suite_is_refused(suite: str) -> None:
    done = run(f'exec sh {SCRIPT} "$SUITE"', SUITE=suite)
    assert (done.returncode, "which suite?" in done.stderr) == (1, True)


def test_a_debian_that_cannot_be_made_leaves_nothing_and_ends_with_69(tmp_path: Path) -> None:
    stub = 'make_suite() { mkdir -p "$BARE/half"; return 1; }; '
    done = run(functions(tmp_path) + stub + "ensure_root trixie")
    assert done.returncode == 69
    assert "no Debian trixie can be made here" in done.stdout
    assert list((tmp_path / "roots").iterdir()) == []


def test_a_debian_is_made_once_and_half_a_one_is_thrown_away(tmp_path: Path) -> None:
    stub = f'make_suite() {{ echo made >>"{tmp_path}/made"; mkdir -p "$BARE/etc"; }}; '
    half = 'mkdir "$ROOTS/making-trixie-1"; '
    done = run(functions(tmp_path) + stub + half + 'ensure_root trixie; ensure_root trixie; echo "at $BARE"')
    assert done.stdout.splitlines()[-1] == f"at {tmp_path}/roots/trixie"
    assert (tmp_path / "made").read_text() == "made\n"
    assert [path.name for path in (tmp_path / "roots").iterdir()] == ["trixie"]


def test_without_mmdebstrap_nothing_is_begun(tmp_path: Path) -> None:
    stub = 'ensure_packages() { exit 1; }; make_suite() { echo "made" >&2; }; '
    done = run(functions(tmp_path) + stub + "ensure_root trixie")
    assert (done.returncode, done.stderr) == (69, "")


def test_the_checkout_is_copied_as_it_lies_there_and_the_environment_stays(tmp_path: Path) -> None:
    checkout, root = tmp_path / "checkout", tmp_path / "root"
    (checkout / "deploy").mkdir(parents=True)
    (root / "srv/nodevet").mkdir(parents=True)
    (root / "srv/nodevet/.venv").symlink_to("/nowhere")
    (root / "srv/nodevet/old.py").touch()
    for name in ("deploy/a b.py", "gone.py", ".gitignore"):
        (checkout / name).write_text("*.pyc\n")
    git = ["git", "-C", str(checkout), "-c", "user.email=x@example.org", "-c", "user.name=x"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
        subprocess.run([*git, *words], check=True)
    (checkout / "gone.py").unlink()
    (checkout / "new.py").touch()
    (checkout / "new.pyc").touch()
    done = run(functions(tmp_path) + f'ROOT="{checkout}"; BARE="{root}"; AT=/srv/nodevet; copy_checkout', HOME="/root")
    assert (done.returncode, done.stderr) == (0, "")
    copied = {str(p.relative_to(root / "srv/nodevet")) for p in (root / "srv/nodevet").rglob("*") if not p.is_dir()}
    assert copied == {".gitignore", ".venv", "deploy/a b.py", "new.py"}


def test_make_clean_removes_the_debians() -> None:
    text = (ROOT / "deploy/setup/clean.sh").read_text()
    assert 'rm -rf --one-file-system "$ROOTS"' in text and 'own_dir "$ROOTS"' in text
