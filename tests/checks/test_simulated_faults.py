"""Each fault that can be injected into a simulated host is found by the check that owns it, through the real pynvml."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, sys
from pathlib import Path
from checks import Host
from checks.catalog import load
from checks.profile import match_profile, profiles, typed_options
from checks.runner import run_check
from deploy.simcluster.host import SimHost

folder, faults = Path(sys.argv[1]), json.loads(sys.argv[2])
sim = SimHost(folder / "n1", "n1").create()
host = Host(root=sim.sysroot, kmsg=sim.kmsg, nvml_library=sim.nvml_library, simulated=True)
profile = match_profile(host, profiles())

def look():
    bad = set()
    for name, declared in load().items():
        options = typed_options(name, profile.checks.get(name, {}), where=name)
        if name == "services":
            options["units"] = ("munge.service",)
        if name == "memory":
            options["min_gib"] = 2000.0
        if name == "mount":
            options["paths"] = ("/scratch",)
        if name == "raid":
            options["arrays"] = ("md0",)
        bad |= {f.code for f in run_check(declared, host, options).findings if f.status not in ("ok", "skipped")}
    return sorted(bad)

seen = {"profile": [profile.name], "healthy": look()}
for name, target in faults:
    sim.inject(name, **target)
    seen[f"{name} {json.dumps(target)}"] = look()
    sim.heal()
    sim.reboot()
    (sim.sysroot / "proc/uptime").write_text("3600.00 3600.00")
    look()
seen["healed"] = look()
print(json.dumps(seen))
"""
FAULTS: list[tuple[str, dict[str, object], set[str]]] = [
    ("gpu_lost", {"gpu": 3}, {"gpu_lost", "gpu_count_low"}),
    ("gpu_absent", {"gpu": 2}, {"gpu_lost", "gpu_count_low"}),
    ("gpu_reset_required", {"gpu": 1}, {"gpu_reset_required"}),
    ("ecc", {"gpu": 0}, {"gpu_ecc_uncorrected", "gpu_remap_pending"}),
    ("ecc", {"gpu": 0, "remap": "failure"}, {"gpu_remap_failed"}),
    ("nvlink_down", {"gpu": 5, "link": 7}, {"gpu_nvlink_down"}),
    ("nvlink_errors", {"gpu": 4, "link": 3}, {"gpu_nvlink_errors"}),
    ("nvlink_slow", {"gpu": 4, "link": 3}, {"gpu_nvlink_slow"}),
    ("fabric_down", {}, {"fabric_manager_down"}),
    ("fabric_degraded", {"gpu": 4}, {"gpu_fabric_degraded"}),
    ("fabric_degraded", {"gpu": 4, "mask": 16}, {"gpu_fabric_unhealthy"}),
    ("sxid", {"sxid": 22003, "word": "Non-fatal"}, {"nvswitch_fatal"}),
    ("throttled", {"gpu": 0}, {"gpu_hot"}),
    ("driver_mismatch", {}, {"gpu_driver_mismatch"}),
    ("ib_down", {}, {"ib_port_down"}),
    ("ib_slow", {}, {"ib_port_slow"}),
    ("memory_missing", {}, {"memory_low"}),
    ("memory_slow", {}, {"memory_module_slow"}),
    ("reboot_pending", {}, {"reboot_pending"}),
    ("cgroups_left", {}, {"cgroups_many", "job_cgroups_left"}),
    ("power_supply_lost", {}, {"power_supply_bad"}),
    ("fan_dead", {}, {"bmc_sensor_critical"}),
    ("clock_skew", {"seconds": 300.0}, {"clock_off"}),
    ("service_failed", {}, {"service_failed"}),
    ("cuda_fails", {"error": 802}, {"gpu_cuda_not_ready"}),
    ("device_file_replaced", {"name": "nvidiactl"}, {"gpu_device_file_wrong"}),
    ("mig_divided", {"gpu": 1, "instances": ""}, {"gpu_mig_empty"}),
    ("firmware_old", {"gpu": 6}, {"gpu_firmware_mixed"}),
    ("peermem_unloaded", {}, {"gpu_peermem_absent"}),
    ("mount_missing", {}, {"mount_absent"}),
    ("mount_read_only", {}, {"disk_turned_read_only", "disk_errors"}),
    ("nvme_dead", {}, {"nvme_not_live", "disk_gone"}),
    ("nvme_worn", {}, {"nvme_worn"}),
    ("nvme_worn", {"critical_warning": 4}, {"nvme_warning"}),
    ("raid_degraded", {}, {"raid_degraded", "disk_errors"}),
    ("lustre_evicted", {}, {"lustre_evictions", "file_client_evicted"}),
    ("lustre_lost", {}, {"file_server_silent"}),
    ("nfs_silent", {}, {"file_server_silent"}),
    ("xid", {"xid": 31, "pid": 4711}, {"gpu_xid_job"}),
    ("xid", {"xid": 119}, {"gpu_xid_reset"}),
    ("dcgm_error", {"generation": 3, "test": "software", "error": 85, "gpu": 6},
     {"dcgm_diag_reset", "dcgm_health_failure"}),
    ("dcgm_engine_down", {}, {"dcgm_engine_down", "dcgm_unasked"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What was found under each fault, one after the other, in a process of its own (NVML is loaded once)."""
    faults = json.dumps([(name, target) for name, target, _ in FAULTS])
    argv = [sys.executable, "-c", SCRIPT, str(tmp_path_factory.mktemp("sim")), faults]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def test_a_healthy_simulated_host_is_healthy(seen: dict[str, list[str]]) -> None:
    assert seen["profile"] == ["hgx-h100"]
    assert seen["healthy"] == seen["healed"] == []


def named(value: object) -> str:
    """The same name in every process, whatever the order of a set."""
    return str(sorted(value) if isinstance(value, set) else value)[:30]


@pytest.mark.parametrize(("name", "target", "expected"), FAULTS, ids=named)
def test_a_fault_is_found(seen: dict[str, list[str]], name: str, target: dict[str, object], expected: set[str]) -> None:
    assert expected <= set(seen[f"{name} {json.dumps(target)}"])
