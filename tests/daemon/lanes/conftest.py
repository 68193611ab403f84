"""What the tests of lanes share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from daemon.lanes import lane


@pytest.fixture
def fifo(tmp_path: Path) -> Iterator[Path]:
    """A pipe whose reader blocks in the kernel until a writer comes; at the end one comes."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    yield path
    release(path)


def release(path: Path) -> None:
    """Let whoever blocks in opening ``path`` go on; no matter when nobody does."""
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks half a second apart already count as two."""
    monkeypatch.setattr(lane, "OBSERVATION_GAP", 0.3)
    monkeypatch.setattr(lane, "FIRST_BACKOFF", 0.2)
