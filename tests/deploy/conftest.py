"""The compiled stand-in and a simulated host, both made once."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from deploy.simcluster.host import SimHost
from deploy.simcluster.nvml.build import CannotBuild, build
from deploy.simcluster.nvml.state import NvmlState


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


@pytest.fixture
def state(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NvmlState]:
    """An initialised NVML whose state can be changed; latencies are off unless a test sets them."""
    state = NvmlState(tmp_path / "nvml.state")
    state.write({"count": 8, "latency.scale": 0})
    monkeypatch.setenv("NODEVET_SIM_NVML", str(state.path))
    ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
    pynvml.nvmlInit()
    yield state
    state.write({"count": 8, "latency.scale": 0})
    pynvml.nvmlShutdown()
