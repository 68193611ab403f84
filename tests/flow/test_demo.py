"""`nodevet sim demo --once --json` plays the main job, says how it went in one document, and leaves nothing behind."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from deploy.simcluster import lab_ground, processes
from deploy.simcluster.demo import Result

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


def test_the_demo_comes_out_right_in_every_step_and_leaves_nothing_behind() -> None:
    if reason := lab_ground.cannot_run():
        pytest.skip(reason)
    argv = [sys.executable, "-I", "-m", "daemon", "sim", "demo", "--once", "--json"]
    with tempfile.TemporaryFile("w+") as told:
        demo = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=told, text=True)
        try:
            base = base_of(demo)
            stdout, _ = demo.communicate(timeout=400)
        finally:
            demo.terminate()
            demo.wait(timeout=40)
        told.seek(0)
        narrated = told.read()
    document = json.loads(stdout)
    assert set(document) >= {"passed", "steps", "nodes", "jobs"}
    assert all(set(step) == {"name", "passed", "seconds", "seen"} for step in document["steps"])
    result = msgspec.convert(document, Result)
    wrong = {s.name: s.seen for s in result.steps if not s.passed}
    assert wrong == {} and result.passed and demo.returncode == 0, narrated[-3000:]
    assert len(result.steps) == 11
    assert result.simulated and "SIMULATED" in narrated
    assert result.nodes == {"n1": "idle", "n2": "idle", "n3": "idle", "n4": "drain"}
    assert set(result.jobs) == {"vetted", "elsewhere", "refused", "without server"}
    reasons = re.findall(r"nodevet: (gpu_\w+) ", " ".join(s.seen for s in result.steps))
    assert len(reasons) == 2, result.steps
    assert processes.of_lab(base) == set()
    assert not base.exists()


def base_of(demo: subprocess.Popen[str]) -> Path:
    """Where the demo's cluster stands: the mark that every process of it carries."""
    deadline = time.monotonic() + 180
    while demo.poll() is None and time.monotonic() < deadline:
        for child in Path(f"/proc/{demo.pid}/task/{demo.pid}/children").read_text().split():
            with suppress(OSError):
                for setting in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
                    name, _, value = setting.decode().partition("=")
                    if name == processes.MARK:
                        return Path(value)
        time.sleep(0.05)
    raise AssertionError("the demo has started no process of a cluster")
