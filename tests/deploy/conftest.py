"""The compiled stand-in and a simulated host, made once where that is safe."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.simcluster.host import SimHost
from deploy.simcluster.nvml.build import CannotBuild, build


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nvml-build")


@pytest.fixture(scope="session")
def library(cache: Path) -> Path:
    try:
        return build(cache)
    except CannotBuild as error:
        pytest.skip(str(error))


@pytest.fixture
def host(library: Path, cache: Path, tmp_path: Path) -> Iterator[SimHost]:
    """A healthy host of its own for each test."""
    host = SimHost(tmp_path / "n1", "n1", cache=cache).create()
    yield host
    host.close()


@pytest.fixture(scope="module")
def veteran(library: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimHost]:
    """A host that several tests break in turn; each must leave it healed."""
    host = SimHost(tmp_path_factory.mktemp("host") / "n9", "n9", cache=cache).create()
    yield host
    host.close()
