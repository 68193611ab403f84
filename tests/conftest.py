"""Fixtures that every folder of tests may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from deploy.simcluster import waiting
from tests.fakes import Plant, planter

# A deadline here only says when a test gives up; several clusters at once on two cores are slow, not wrong.
os.environ.setdefault(waiting.PATIENCE, "3")


@pytest.fixture
def plant(tmp_path: Path) -> Plant:
    """Write a small tree and get the Host rooted there."""
    return planter(tmp_path / "node")
