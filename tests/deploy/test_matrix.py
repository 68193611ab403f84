"""The matrix of Slurm releases is no part of the ordinary tests, and what it cannot do it says and skips."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "deploy/setup/matrix.sh"


def run(script: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the script with a piece of shell before its last part: as if this machine were another."""
    settings = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **env}
    return subprocess.run(["sh", "-c", script], env=settings, capture_output=True, text=True, timeout=60)


def functions(tmp_path: Path) -> str:
    """The functions of the script, without what it does."""
    text = SCRIPT.read_text().split('\nlocate "')[0].replace('"$(dirname "$0")"', f'"{SCRIPT.parent}"')
    path = tmp_path / "functions.sh"
    path.write_text(text)
    return f'. "{path}"; STATE="{tmp_path}"; AT=/srv/nodevet; ROOT="{ROOT}"; '


def test_make_test_leaves_it_out() -> None:
    lines = (ROOT / "Makefile").read_text().splitlines()
    targets = {line.partition(":")[0]: line for line in lines if ":" in line and not line.startswith(("\t", "#"))}
    assert "test-slurm-matrix" in targets
    assert "matrix" not in targets["test"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_an_ordinary_user_is_told_and_nothing_is_done() -> None:
    done = run(f"exec setpriv --reuid 65534 --regid 65534 --clear-groups sh {SCRIPT}")
    assert (done.returncode, done.stdout) == (0, "setup: matrix: skipped: only root can make other Debians\n")


def test_a_suite_that_cannot_be_made_is_skipped_and_leaves_nothing(tmp_path: Path) -> None:
    stubs = 'mmdebstrap() { echo "E: no mirror" >&2; mkdir -p "$BARE/x"; return 1; }; nice() { shift 2; "$@"; }; '
    done = run(functions(tmp_path) + stubs + 'suite trixie; echo "rc $?"; echo "WORK ${WORK-none}"')
    assert "E: no mirror" in done.stderr
    assert done.stdout.splitlines() == [
        "setup: matrix: trixie is skipped: its root cannot be made here (see above)",
        "rc 2",
        "WORK none",
    ]


def test_the_verdict_is_the_rings_and_the_root_is_removed(tmp_path: Path) -> None:
    stubs = (
        'make_suite() { mkdir -p "$BARE"; echo "$WORK" >>"$STATE/works"; }; chroot() { echo "slurm-wlm 24.11.5"; }; '
        'pass_configuration() { :; }; clone() { :; }; run_inside() { echo "$BARE_COMMAND"; return "$WANTED"; }; '
    )
    for wanted, verdict in ((0, "passed"), (1, "FAILED (1)")):
        done = run(functions(tmp_path) + stubs + f'WANTED={wanted}; suite trixie; echo "rc $?"')
        assert f"matrix: Slurm 24.11.5 on trixie: {verdict} after" in done.stdout
        assert done.stdout.endswith(f"rc {wanted}\n")
        assert "-m cluster" in done.stdout and "deploy/setup/setup.sh" in done.stdout
    works = (tmp_path / "works").read_text().split()
    assert len(works) == 2 and not any(Path(work).exists() for work in works)


def test_a_name_that_is_no_suite_is_refused() -> None:
    done = run(f"exec sh {SCRIPT}", MATRIX="../x")
    assert (done.returncode, "MATRIX: ../x is no list of suites" in done.stderr) == (1, True)
