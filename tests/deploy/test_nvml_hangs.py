"""A process inside a hung NVML sleeps as in a real driver, ends on TERM only where it can, and leaves nobody behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.simcluster import processes
from deploy.simcluster.nvml.state import NvmlState

HANGING = """
import ctypes, sys, pynvml
ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
print("calling", flush=True)
try:
    pynvml.nvmlInit()
    print("answered", flush=True)
except pynvml.NVMLError as error:
    print("failed", error.value, flush=True)
"""


@pytest.fixture(params=["S", "D"])
def hanging(request: pytest.FixtureRequest, library: Path, tmp_path: Path) -> Iterator[tuple[NvmlState, Hanging]]:
    """A process that hangs in nvmlInit, in interruptible (S) or uninterruptible (D) sleep."""
    deaf = request.param == "D"
    state = NvmlState(tmp_path / "s")
    state.write({"init.hang": 1, "hang.uninterruptible": int(deaf), "latency.scale": 0})
    argv = [sys.executable, "-c", HANGING, str(library)]
    environment = {**os.environ, "NODEVET_SIM_NVML": str(state.path)}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "calling\n"
        deadline = time.monotonic() + 30
        while sleep_of(process.pid) != request.param:
            assert time.monotonic() < deadline, "the process never hung"
            time.sleep(0.02)
        yield state, Hanging(process, deaf)
        process.kill()


@dataclass(frozen=True)
class Hanging:
    process: subprocess.Popen[str]
    deaf: bool


def sleep_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_term_ends_a_hanging_process_unless_the_hang_is_uninterruptible(hanging: tuple[NvmlState, Hanging]) -> None:
    state, caught = hanging
    caught.process.send_signal(signal.SIGTERM)
    if caught.deaf:
        with pytest.raises(subprocess.TimeoutExpired):
            caught.process.wait(0.5)
        assert sleep_of(caught.process.pid) == "D"
        state.change({}, remove=["init.hang"])
    assert caught.process.wait(30) == -signal.SIGTERM


def test_a_hanging_process_that_is_killed_leaves_nobody_behind(hanging: tuple[NvmlState, Hanging]) -> None:
    _, caught = hanging
    sleepers = Path(f"/proc/{caught.process.pid}/task/{caught.process.pid}/children").read_text().split()
    assert len(sleepers) == int(caught.deaf)
    caught.process.kill()
    assert caught.process.wait(30) == -signal.SIGKILL
    assert processes.wait_gone(map(int, sleepers), 30) == set()


def test_a_process_goes_on_when_its_hang_is_over(hanging: tuple[NvmlState, Hanging]) -> None:
    state, caught = hanging
    state.change({}, remove=["init.hang"])
    assert caught.process.wait(30) == 0
    assert caught.process.stdout is not None
    assert caught.process.stdout.read() == "answered\n"


def test_a_hang_ends_when_its_state_file_is_gone(hanging: tuple[NvmlState, Hanging]) -> None:
    """A deleted simulated node leaves nobody behind that only KILL could end."""
    state, caught = hanging
    sleepers = Path(f"/proc/{caught.process.pid}/task/{caught.process.pid}/children").read_text().split()
    began = time.monotonic()
    state.path.unlink()
    assert caught.process.wait(30) == 0
    assert time.monotonic() - began > 0.9, "a file that is missing for a moment ends no hang"
    assert caught.process.stdout is not None
    assert caught.process.stdout.read() == "failed 999\n"
    assert processes.wait_gone(map(int, sleepers), 30) == set()


def test_a_hang_outlasts_a_file_that_is_away_for_a_moment(hanging: tuple[NvmlState, Hanging]) -> None:
    state, caught = hanging
    away = state.path.with_name("away")
    for _ in range(3):
        state.path.rename(away)
        time.sleep(0.3)
        away.rename(state.path)
        time.sleep(0.3)
    assert sleep_of(caught.process.pid) == ("D" if caught.deaf else "S")
    state.change({}, remove=["init.hang"])
    assert caught.process.wait(30) == 0
