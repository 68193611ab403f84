"""Fixtures that every folder of tests may use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes import Plant, planter


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    """Write a small tree and get the Host rooted there."""
    return planter(tmp_path / "node")
