"""The hook is built once and reads a configuration of the test's own."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm.hook.build import build
from tests.slurm.hook.rig import Hook


@pytest.fixture(scope="session")
def built() -> Iterator[Path]:
    """Build the hook once, into a short directory of its own: socket paths end at 107 bytes."""
    base = Path(tempfile.mkdtemp(prefix="nv-hook-", dir="/tmp"))
    try:
        yield build(base / "bin", conf=base / "hook.conf").parent
    finally:
        shutil.rmtree(base, ignore_errors=True)


@pytest.fixture
def hook(built: Path) -> Iterator[Hook]:
    """Return the hook in a fresh base directory, configured."""
    base = Path(tempfile.mkdtemp(prefix="t-", dir=built))
    base.chmod(0o755)
    (base / "marks").mkdir(mode=0o700)
    made = Hook(base, built / "bin", built / "hook.conf")
    made.configure()
    try:
        yield made
    finally:
        shutil.rmtree(base, ignore_errors=True)
        made.conf.unlink(missing_ok=True)


@pytest.fixture
def root() -> None:
    """Leave out, visibly, what only root can set up."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
