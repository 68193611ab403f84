"""dcgmi is asked gently, the stand-in answers as it does, and no document makes the reader fail."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checks import Host
from checks import host as host_module
from checks.dcgm.ask import Unusable, answer
from checks.dcgm.report import read_diag
from deploy.simcluster import dcgm
from tests.checks.dcgm.planted import SERIALS


def test_a_late_one_is_asked_to_end_and_never_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """E57, E36: TERM, a time to end, then left alone."""
    told = tmp_path / "told"
    script = tmp_path / "dcgmi"
    script.write_text(
        f"#!{sys.executable} -I\nimport os, signal, time\n"
        f"signal.signal(signal.SIGTERM, lambda *_: open({str(told)!r}, 'w').write(str(os.getpid())))\n"
        "print('begun', flush=True)\n"
        "while True:\n    time.sleep(0.05)\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr("checks.dcgm.ask.GRACE", 0.5)
    with pytest.raises(Unusable, match="did not end within 1 s"):
        answer(Host(), [str(script), "diag"], 1.0)
    pid = int(told.read_text())
    try:
        os.kill(pid, 0)  # it heard TERM, did not end, and lives on
    finally:
        os.kill(pid, signal.SIGKILL)
        [left] = host_module._LEFT
        left.wait()
    assert Host().run(["true"]) == "" and host_module._LEFT == []


def test_the_stand_in_answers_as_dcgmi(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_text("# simulated\ndcgm.generation 3\ndcgm.bad 2:52:2:software:Fail\n")
    path = dcgm.install(tmp_path / "bin" / "dcgmi", state, SERIALS)
    host = Host()
    argv = [str(path), "diag", "-r", "1", "-j"]
    done = host.outcome(argv, timeout=60)
    assert done.status == 205 and dcgm.LABEL in done.output
    assert [r.gpus for r in read_diag(done.output).results if r.status == "fail"] == [(2,)]
    state.write_text("dcgm.bad 2:52:2:software:Fail\n")
    assert [r.gpus for r in read_diag(host.outcome(argv, timeout=60).output).results if r.status == "fail"] == [(2,)]
    state.write_text("dcgm.busy 1\n")
    with pytest.raises(Unusable, match="already running"):
        answer(host, argv, 60)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12)
    | st.sampled_from(["Fail", "Pass", "Warn", "test", "GPU"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(
        ["status", "name", "tests", "results", "warnings", "gpu_id", "gpu_ids", "entity_group", "entity_groups",
         "entity_id", "entities", "error_id", "error_severity", "test_summary", "version", "runtime_error",
         "GPU Device Serials", "metadata"]), inner, max_size=6),
    max_leaves=30,
))  # fmt: skip
def test_no_document_makes_the_reader_fail(made: object) -> None:
    with contextlib.suppress(Unusable):
        read_diag(json.dumps(made))
