"""The compiled stand-in and a simulated host, both made once."""

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


@pytest.fixture(scope="session")
def veteran(library: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimHost]:
    """A host that many tests break in turn (a new one is a thousand files); each must leave it healed."""
    host = SimHost(tmp_path_factory.mktemp("host") / "n1", "n1", cache=cache).create()
    yield host
    host.close()


@pytest.fixture
def host(veteran: SimHost) -> Iterator[SimHost]:
    """A healthy host at the begin of a boot; what a test did to it is healed afterwards."""
    veteran.reboot()
    yield veteran
    veteran.heal()
