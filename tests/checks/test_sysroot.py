"""A tree under --sysroot is all that is looked at: not one file, command or socket of the machine we run on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from deploy.simcluster.host import SimHost

ROOT = Path(__file__).parents[2]
TOP = ("proc", "sys", "etc", "dev", "usr", "run", "var", "tmp", "scratch", "lib", "boot")
DEEP = (
    "sys/class/net", "sys/class/infiniband", "sys/class/nvme", "sys/class/hwmon", "sys/bus/pci/devices", "sys/devices",
    "sys/module", "sys/fs/cgroup", "proc/sys", "proc/1", "proc/self", "proc/driver", "proc/net", "proc/mounts",
    "proc/meminfo", "proc/cpuinfo", "etc", "dev", "usr", "run", "nodevet-commands", "scratch",
)  # fmt: skip
CHOSEN = {
    "mount": {"paths": ["/scratch"]}, "disk_space": {"paths": ["/", "/tmp"]}, "services": {"units": ["munge.service"]},
    "process_limits": {"limits": ["memlock=unlimited"]},
}  # fmt: skip


def watched(root: Path, profile: str = "hgx-h100", hidden: Sequence[str] = ()) -> dict[str, Any]:
    argv = [
        sys.executable,
        "-m",
        "tests.checks.sysroot_watch",
        str(root),
        json.dumps(CHOSEN),
        profile,
        json.dumps(hidden),
    ]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    told: dict[str, Any] = json.loads(done.stdout)
    assert "control: open /proc/self/comm" in told["touched"], "the watch itself is blind"
    return {**told, "touched": [t for t in told["touched"] if not t.startswith("control")]}


def test_an_empty_tree_is_no_fault_and_no_reason_to_look_elsewhere(tmp_path: Path) -> None:
    """Rule 1: every source is missing, under every profile, deep and active checks included."""
    told = watched(tmp_path, "")
    assert told["touched"] == [] and told["fails"] == {"": []}


@pytest.mark.parametrize("kind", ["top", "climbing", "deep"])
def test_links_to_the_live_machine_are_not_followed(tmp_path: Path, kind: str) -> None:
    """Whoever sends in a captured tree must not learn, or have judged, what stands on the machine that looks at it."""
    for name in DEEP if kind == "deep" else TOP:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        climb = "../" * 20 if kind == "climbing" else "/"
        (tmp_path / name).symlink_to(climb + name)
    told = watched(tmp_path)
    assert told["touched"] == [] and told["fails"] == {"": []}


def test_a_whole_captured_tree_is_enough(tmp_path: Path) -> None:
    """Without the driver's library its questions are unknown; nothing else is asked in their place."""
    host = SimHost(tmp_path / "n1", "n1", cache=tmp_path / "nvml").create()
    (host.sysroot / "etc/nodevet-simulated").unlink()
    told = watched(host.sysroot)
    assert told["touched"] == []
    assert [f for f in told["fails"][""] if f[2] == "fail"] == []


def test_a_part_of_a_tree_makes_no_fault(tmp_path: Path) -> None:
    """Rule 1: somebody copied /proc and not /sys; what was not copied is not broken."""
    host = SimHost(tmp_path / "n1", "n1", cache=tmp_path / "nvml").create()
    parts = ["proc", "sys", "dev", "etc", "sys/class", "sys/bus", "sys/devices", "proc/sys", "proc/1", "proc/driver"]
    told = watched(host.sysroot, hidden=parts)
    assert told["touched"] == [] and list(told["fails"]) == parts
    faults = {part: [f for f in found if f[2] == "fail" and f[4] == "node"] for part, found in told["fails"].items()}
    assert faults == {part: [] for part in parts}
