"""Agents and central services of one test, taken down after it."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deploy.simcluster.host import SimHost
from tests.daemon.agent.central_server import Service
from tests.daemon.agent.running import RunningAgent

GPU_FILES = "NodeName=n1 Name=gpu File=/dev/nvidia[0-7]\n"


@pytest.fixture(scope="session")
def nvml_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the compiled stand-in is kept."""
    return tmp_path_factory.mktemp("nvml")


@pytest.fixture
def base() -> Iterator[Path]:
    """A folder whose paths are short enough for sockets."""
    path = Path(tempfile.mkdtemp(prefix="nv-agent-", dir="/tmp"))
    path.chmod(0o755)
    yield path
    deadline = time.monotonic() + 10
    while path.exists() and time.monotonic() < deadline:
        # The outbox process of a killed agent still writes what it was handed, and then ends.
        shutil.rmtree(path, ignore_errors=True)
        time.sleep(0.02)


@pytest.fixture
def host(base: Path, nvml_cache: Path) -> Iterator[SimHost]:
    """A healthy simulated node with eight GPUs."""
    made = SimHost(base / "host", "n1", cache=nvml_cache).create()
    (base / "gres.conf").write_text(GPU_FILES)
    yield made
    made.close()


@pytest.fixture
def service() -> Iterator[Service]:
    """A central service that is there."""
    made = Service()
    yield made
    if not made.ended.is_set():
        made.close()


@pytest.fixture
def make_agent(base: Path, host: SimHost) -> Iterator[Callable[..., RunningAgent]]:
    """Agents over the simulated node, not started yet; with ``url`` they know a central service."""
    made: list[RunningAgent] = []

    def make(url: str = "", **sections: dict[str, object]) -> RunningAgent:
        agent = RunningAgent(base)
        token = base / "token"
        token.write_text("secret-token\n")
        simulated: dict[str, object] = {
            "root": str(host.sysroot),
            "kmsg": str(host.kmsg),
            "nvml_library": str(host.nvml_library),
            "simulated": True,
        }
        central: dict[str, object] = {"url": url, "token_file": str(token), "poll_wait": 2.0} if url else {}
        agent.configure(host=simulated, central=central, **sections)
        made.append(agent)
        return agent

    yield make
    for agent in made:
        if agent.process is not None:
            agent.stop(9)


@pytest.fixture
def agent(make_agent: Callable[..., RunningAgent]) -> RunningAgent:
    """An agent without a central service, started."""
    made = make_agent()
    made.start()
    return made
