"""The healthy node is clean, and no file of it that is missing, closed, empty or garbled makes a fault of the node."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What a spoiled file may be told as a fault of the node, with the reason.
ALLOWED: dict[tuple[str, str], str] = {}
Told = dict[str, list[list[str]]]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Every file that a passive check reads, spoiled in seven ways (a process of its own: NVML is loaded once)."""
    argv = [sys.executable, "-m", "tests.checks.every_file", str(tmp_path_factory.mktemp("files"))]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: Told = json.loads(done.stdout)
    return found


def test_the_healthy_node_is_clean(told: Told) -> None:
    assert told["healthy"] == []


def test_the_files_were_really_read_and_spoiled(told: Told) -> None:
    paths = {row[0] for row in told["told"]}
    assert {"proc/meminfo", "proc/1/mountinfo", "sys/devices/system/cpu/online"} <= paths
    assert any("infiniband" in path for path in paths) and any("bus/pci" in path for path in paths)
    kinds = {row[1] for row in told["told"] if row[3] == "unknown"}
    assert {"removed", "emptied", "garbled", "numbers", "huge", "EACCES", "EIO"} <= kinds


def test_no_spoiled_file_is_a_fault_of_the_node(told: Told) -> None:
    """Rule 1: fail and node alone can drain; a file that cannot be read, or holds nonsense, is our trouble."""
    faults = [row for row in told["told"] if row[3] == "fail" and row[5] == "node"]
    assert [row for row in faults if (row[0], row[4]) not in ALLOWED] == []


def test_no_allowance_is_out_of_date(told: Told) -> None:
    seen = {(row[0], row[4]) for row in told["told"] if row[3] == "fail"}
    assert set(ALLOWED) <= seen
