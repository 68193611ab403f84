"""A program that is started ends in time or is left behind, and gets nothing of our environment."""

from __future__ import annotations

import time

import pytest

from daemon.external import OUTPUT_LIMIT, run


def test_status_output_and_a_bare_environment() -> None:
    done = run(["/usr/bin/env"], {"SLURMD_NODENAME": "n1"}, timeout=10)
    assert (done.status, done.output) == (0, "SLURMD_NODENAME=n1\n")
    assert run(["/bin/sh", "-c", "exit 3"], {}, timeout=10).status == 3


def test_one_that_does_not_end_is_ended() -> None:
    started = time.monotonic()
    for script in ("sleep 60", "trap '' TERM; while :; do sleep 1; done"):
        assert run(["/bin/sh", "-c", script], {}, timeout=0.3).status is None
    assert time.monotonic() - started < 15


def test_output_is_bounded_and_a_missing_program_is_told() -> None:
    assert len(run(["/bin/sh", "-c", "head -c 200000 /dev/zero"], {}, timeout=10).output) == OUTPUT_LIMIT
    with pytest.raises(OSError, match="No such file"):
        run(["/no/such/program"], {}, timeout=1)
