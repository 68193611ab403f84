"""A command that hangs is never started a second time beside itself, not by the next worker either."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from checks import Host
from checks.late import LATE, remembered, started

STUBBORN = """#!/bin/sh
trap "" TERM
echo $$ >> {pids}
while :; do sleep 60; done
"""


def test_no_second_process_is_put_beside_one_that_did_not_end(tmp_path: Path) -> None:
    """smartctl, ipmitool, dcgmi and mmhealth can hang in the kernel for days, and each hour they are asked again."""
    command, pids = tmp_path / "smartctl", tmp_path / "pids"
    command.write_text(STUBBORN.format(pids=pids))
    command.chmod(0o755)
    first = Host()
    deadline = time.monotonic() + 30
    with pytest.raises(TimeoutError, match="did not end within"):
        first.outcome([str(command)], timeout=3.0, grace=0.1)
    while not pids.exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    pid = int(pids.read_text())
    try:
        second = Host(memory=first.keeps)
        with pytest.raises(TimeoutError, match=f"has not ended yet: pid {pid}"):
            second.outcome([str(command)], timeout=1.0, grace=0.1)
        assert pids.read_text().split() == [str(pid)]
        assert second.keeps == first.keeps
        assert second.run(["echo", "another"]) == "another\n"
    finally:
        os.kill(pid, signal.SIGKILL)
    while started(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    command.write_text("#!/bin/sh\necho again\n")
    assert Host(memory=first.keeps).run([str(command)], timeout=30.0) == "again\n"


@pytest.mark.parametrize("kept", [None, 7, "x", {"a": 1}, {"a": ["b", 2]}, {"a": [-1, 2]}, {"a": [os.getpid(), 1]}])
def test_what_is_no_memory_of_a_command_holds_nothing_back(kept: object) -> None:
    assert remembered({LATE: kept}) == {}
