"""Every check of the kernel's log reads a kept log of any usual form; one of no form is no health to any of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from checks import CHECKS, Finding
from checks.catalog import load
from checks.runner import run_check
from tests.fakes import Plant

LINES = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
    "oom_memcg=/slurm/uid_1/job_77,task_memcg=/slurm/uid_1/job_77/step_0,task=python3,pid=4711,uid=1001",
    "nvme nvme3: Disabling device after reset failure: -19",
)


def asked(plant: Plant, path: Path, name: str) -> tuple[Finding, ...]:
    load()
    tree = {"/proc/uptime": "9000.0 1.0", "/proc/sys/kernel/random/boot_id": "b\n", "/proc/sys/kernel/tainted": "0\n"}
    return tuple(run_check(CHECKS[name], replace(plant(tree, kmsg=path), captured=True)).findings)


@pytest.mark.parametrize("row", ["[  100.5] {}", "Dec  1 13:52:32 n1 kernel: {}", "4,9,100500000,-;{}"])
@pytest.mark.parametrize(("name", "code"), [("kernel_oom", "oom_job"), ("kernel_events", "disk_gone")])
def test_a_line_of_any_form_is_found(plant: Plant, tmp_path: Path, row: str, name: str, code: str) -> None:
    """E103: judged as of the log's own end."""
    (tmp_path / "log").write_text("".join(row.format(line) + "\n" for line in LINES))
    assert [f.code for f in asked(plant, tmp_path / "log", name) if f.status != "ok"] == [code]


@pytest.mark.parametrize("name", ["kernel_oom", "kernel_events"])
def test_a_log_of_no_known_form_is_not_answered(plant: Plant, tmp_path: Path, name: str) -> None:
    """E43, E126: what cannot be read is never taken for a log without trouble."""
    (tmp_path / "log").write_text("3b:00 NVRM Xid 79, GPU has fallen off the bus.\n")
    assert [(f.code, f.status, f.blame) for f in asked(plant, tmp_path / "log", name)] == [
        ("kernel_log_unreadable", "unknown", "self")
    ]
