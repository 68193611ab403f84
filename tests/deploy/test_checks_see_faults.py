"""Each injected fault is found by the real checks, read from the simulated host by the real command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.simcluster import hang_fs
from deploy.simcluster.host import SimHost

GPU3 = "0000:5d:00.0"
SEEN = [
    ("gpu_lost", "gpu_lost", GPU3),
    ("gpu_absent", "gpu_lost", GPU3),
    ("gpu_reset_required", "gpu_reset_required", GPU3),
    ("ecc", "gpu_remap_pending", "0000:19:00.0"),
    ("nvlink_down", "gpu_nvlink_down", "0000:19:00.0"),
    ("fabric_down", "fabric_manager_down", "node"),
    ("throttled", "gpu_hot", "0000:19:00.0"),
    ("driver_mismatch", "gpu_driver_mismatch", "node"),
    ("leftover_process", "gpu_leftover", "0000:19:00.0"),
    ("xid", "gpu_xid_warn", "0000:19:00.0"),
    ("ib_down", "ib_port_down", "mlx5_0/1"),
    ("ib_slow", "ib_port_slow", "mlx5_0/1"),
    ("clock_skew", "clock_off", "clock"),
    ("service_failed", "service_failed", "munge.service"),
]
SEEN_AS_ROOT = [("disk_full", "disk_space_low", "/tmp"), ("hung_mount", "mount_hung", "/scratch")]


def check(host: SimHost) -> tuple[int, set[tuple[str, str]], dict[str, object]]:
    """Run ``nodevet check`` over the host; return its exit code, the codes that are not ok, and the whole answer."""
    config = host.folder / "nodevet.toml"
    config.write_text(
        f'[agent]\ncluster = "sim"\nnode = "n1"\nstate = "{host.folder}/state"\n'
        f'gres_conf = "{host.sysroot}/etc/slurm/gres.conf"\n'
        f'[host]\nroot = "{host.sysroot}"\nkmsg = "{host.kmsg}"\nnvml_library = "{host.nvml_library}"\n'
        "simulated = true\n"
        '[checks.mount]\npaths = ["/scratch"]\n[checks.services]\nunits = ["munge.service"]\n'
    )
    argv = [sys.executable, "-m", "daemon", "--config", str(config), "check", "--json", "--gpus", "3"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=400, check=False, cwd=Path(__file__).parents[2])
    assert done.stdout, done.stderr
    answer = json.loads(done.stdout)
    worrying = {(one["code"], one["target"]) for one in answer["findings"] if one["status"] not in {"ok", "skipped"}}
    return done.returncode, worrying, answer


def test_a_healthy_simulated_host_is_healthy_and_labelled(host: SimHost) -> None:
    code, worrying, answer = check(host)
    assert (worrying, answer["verdict"], code) == (set(), "healthy", 0)
    assert answer["simulated"] is True


@pytest.mark.parametrize(("fault", "code", "target"), SEEN, ids=[row[0] for row in SEEN])
def test_a_fault_is_found_where_it_is(host: SimHost, fault: str, code: str, target: str) -> None:
    host.inject(fault)
    _, worrying, _ = check(host)
    assert (code, target) in worrying


@pytest.mark.parametrize(("fault", "code", "target"), SEEN_AS_ROOT, ids=[row[0] for row in SEEN_AS_ROOT])
def test_a_fault_of_a_file_system_is_found_where_it_is(host: SimHost, fault: str, code: str, target: str) -> None:
    if reason := hang_fs.cannot_run():
        pytest.skip(reason)
    test_a_fault_is_found_where_it_is(host, fault, code, target)
