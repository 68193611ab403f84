"""Each fault of a simulated GPU is found by the check that owns it, through the real pynvml, and by no drain.

SIMULATION: the hardware only; pynvml, the host, the profile and the checks are the real ones.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = """
import json, sys
from pathlib import Path
from checks import Host
from checks.catalog import load
from checks.profile import match_profile, profiles, typed_options
from checks.runner import run_check
from deploy.simcluster.host import SimHost

folder, faults, names = Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])
sim = SimHost(folder / "n1", "n1").create()
host = Host(root=sim.sysroot, kmsg=sim.kmsg, nvml_library=sim.nvml_library, simulated=True)
profile = match_profile(host, profiles())
seconds = [0.0]
host.clock = lambda: seconds[0]

def look(rounds):
    found = []
    for _ in range(rounds):
        found = []
        for name in names:
            options = typed_options(name, profile.checks.get(name, {}), where=name)
            found += [(f.code, f.status, f.target) for f in run_check(load()[name], host, options).findings]
        seconds[0] += 400.0
    return sorted({row for row in found if row[1] not in ("ok", "skipped")})

seen = {"healthy": look(4)}
for name, target, more in faults:
    sim.inject(name, **target)
    if more:
        sim.nvml.change(more)
    seen[name] = look(4)
    sim.heal()
    sim.reboot()
    seconds[0] += 90000.0
    look(1)
seen["healed"] = look(4)
print(json.dumps(seen))
"""
CHECKS = (
    "gpu_slowdown", "gpu_power", "gpu_compute_mode", "gpu_thermal", "gpu_ecc", "gpu_ecc_mode", "gpu_ecc_corrected",
    "gpu_spare_rows", "gpu_pages", "gpu_inforom_whole", "gpu_clocks", "gpu_app_clocks", "gpu_pcie", "gpu_gsp",
    "gpu_holders", "gpu_health", "gpu_remap",
)  # fmt: skip
# A driver that does not count the time, so that the looks decide: our clock runs faster here than the stand-in's.
UNCOUNTED: dict[str, object] = {f"gpu.2.field.{number}.error": 3 for number in (269, 270, 271)}
FAULTS: list[tuple[str, dict[str, object], dict[str, object], list[str]]] = [
    ("gpu_slowed", {"cause": "brake"}, UNCOUNTED, ["gpu_slowdown_power_brake"]),
    ("gpu_power_limited", {}, {}, ["gpu_power_limited"]),
    ("gpu_power_unreadable", {}, {}, ["gpu_power_unreadable"]),
    ("gpu_compute_prohibited", {}, {}, ["gpu_compute_prohibited"]),
    ("gpu_memory_hot", {}, {}, ["gpu_memory_hot"]),
    ("gpu_ecc_off", {}, {}, ["gpu_ecc_mode"]),
    ("gpu_spare_rows_gone", {}, {}, ["gpu_remap_exhausted"]),
    ("gpu_repair_pending", {}, {}, ["gpu_repair_pending"]),
    ("gpu_pages_retired", {}, {}, ["gpu_pages_many"]),
    ("gpu_inforom_corrupt", {}, {}, ["gpu_inforom"]),
    ("gpu_clocks_locked", {}, {}, ["gpu_clock_locked"]),
    ("gpu_app_clock_low", {}, {}, ["gpu_clock_set_low"]),
    ("gpu_pcie_narrow", {}, {}, ["gpu_pcie_width_low"]),
    ("gpu_pcie_replays", {"rate": 10**9}, {}, ["gpu_pcie_replays"]),
    ("gpu_gsp_off", {}, {}, ["gpu_gsp_mode"]),
    ("gpu_memory_orphaned", {}, {}, ["gpu_memory_held"]),
]
GPU = "0000:4c:00.0"
Seen = dict[str, list[list[str]]]


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What was found at the fourth look under each fault, in a process of its own (NVML is loaded once)."""
    faults = json.dumps([(name, {**target, "gpu": 2}, more) for name, target, more, _ in FAULTS])
    argv = [sys.executable, "-c", SCRIPT, str(tmp_path_factory.mktemp("sim")), faults, json.dumps(CHECKS)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: Seen = json.loads(done.stdout)
    return found


def test_a_healthy_board_is_healthy(seen: Seen) -> None:
    assert seen["healthy"] == seen["healed"] == []


@pytest.mark.parametrize(("name", "codes"), [(name, codes) for name, _, _, codes in FAULTS])
def test_a_fault_is_found_on_its_gpu_and_nowhere_else(seen: Seen, name: str, codes: list[str]) -> None:
    assert [row[0] for row in seen[name]] == codes
    assert {row[2] for row in seen[name]} == {GPU}


def test_none_of_them_drains_a_node(seen: Seen) -> None:
    """The first rule: a GPU that works stays; the one that nobody may use is a setting, which drains nothing."""
    failed = {row[0] for found in seen.values() for row in found if row[1] == "fail"}
    assert failed == {"gpu_compute_prohibited"}
