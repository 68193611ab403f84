"""Every fault changes what it says, heals without a trace of its own, and is known to other processes."""

from __future__ import annotations

import hashlib
import inspect
from pathlib import Path

import pytest

from deploy.simcluster import hang_fs
from deploy.simcluster.faults import FAULTS
from deploy.simcluster.host import SimHost, UnknownFault

MOUNTS = {"hung_mount", "slow_disk", "disk_full"}
OTHER_BOARDS = {"bond_alone", "bond_degraded", "roce_no_address"}
COUNTED = {"hca_flap", "hca_errors", "ethernet_flap", "ethernet_errors"}
"""Faults of which only counters tell."""
WORN = {"counters", "hw_counters", "statistics", "carrier_changes"}


def picture(host: SimHost) -> dict[str, str]:
    """Content of everything on the host that a fault may change, but for the kernel log and counters."""
    found = {"nvml": str(sorted(host.nvml.read().items()))}
    for path in host.sysroot.rglob("*"):
        if path.is_file() and not path.is_symlink() and path != host.kmsg and not WORN & set(path.parts):
            found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


def says(host: SimHost, path: str) -> str:
    return (host.sysroot / path).read_text().strip()


def log_of(host: SimHost) -> list[str]:
    return [record.partition(";")[2] for record in host.kmsg.read_text().splitlines()]


@pytest.mark.parametrize("name", sorted(set(FAULTS) - MOUNTS - OTHER_BOARDS))
def test_a_healed_host_is_as_before(host: SimHost, name: str) -> None:
    before, log_before = picture(host), log_of(host)
    host.inject(name)
    struck = picture(host)
    assert struck != before or log_of(host) != log_before or name in COUNTED
    assert [fault.name for fault in host.faults()] == [name]
    host.heal(name)
    assert picture(host) == before
    assert host.faults() == []


def test_a_lost_gpu_is_lost_for_nvml_pci_and_the_log(host: SimHost) -> None:
    host.inject("gpu_lost", gpu=3)
    assert host.nvml.read()["gpu.3.error"] == "15"
    assert (host.sysroot / "sys/bus/pci/devices/0000:5d:00.0/config").read_bytes() == b"\xff" * 256
    assert says(host, "sys/bus/pci/devices/0000:5d:00.0/vendor") == "0x10de"
    assert any("Xid (PCI:0000:5d:00): 79," in line for line in log_of(host))
    assert (host.sysroot / "sys/bus/pci/devices/0000:4c:00.0/config").read_bytes()[:2] == b"\xde\x10"


def test_faults_add_up_and_heal_one_by_one(host: SimHost) -> None:
    host.inject("gpu_lost", gpu=1)
    host.inject("gpu_lost", gpu=2)
    host.inject("ib_down", hca="mlx5_4")
    host.inject("leftover_process", gpu=5, pid=90001)
    host.inject("leftover_process", gpu=5, pid=90002)
    assert host.nvml.read()["gpu.5.processes"] == f"90001:{4096 << 20},90002:{4096 << 20}"
    assert says(host, "proc/90002/comm") == "python3"
    host.heal("gpu_lost", gpu=1)
    assert [(fault.name, fault.target.get("gpu")) for fault in host.faults()] == [
        ("gpu_lost", 2),
        ("ib_down", None),
        ("leftover_process", 5),
        ("leftover_process", 5),
    ]
    assert "gpu.1.error" not in host.nvml.read()
    assert says(host, "sys/class/infiniband/mlx5_4/ports/1/state") == "1: DOWN"
    assert len(host.heal()) == 4
    assert says(host, "sys/class/infiniband/mlx5_4/ports/1/state") == "4: ACTIVE"
    assert not (host.sysroot / "proc/90002").exists()


def test_counters_and_the_log_keep_what_happened(host: SimHost) -> None:
    counter = "sys/class/infiniband/mlx5_2/ports/1/counters/link_downed"
    host.inject("hca_flap", hca="mlx5_2", times=3)
    host.heal()
    host.inject("ib_down", hca="mlx5_2")
    host.heal()
    assert says(host, counter) == "4"
    assert any("Cable error" in line for line in log_of(host))
    host.reboot()
    assert says(host, counter) == "0"
    assert not any("Cable error" in line for line in log_of(host))


def test_an_injected_xid_reads_as_the_driver_writes_it(host: SimHost) -> None:
    host.inject("xid", xid=13, gpu=0, pid=4711)
    host.inject("xid", xid=999, gpu=7)
    assert log_of(host)[-2].startswith("NVRM: Xid (PCI:0000:19:00): 13, pid=4711, name=python3, Graphics SM Warp")
    assert log_of(host)[-1] == "NVRM: Xid (PCI:0000:db:00): 999, pid='<unknown>', name=<unknown>, unknown error"


def test_memory_errors_tell_what_became_of_the_row(host: SimHost) -> None:
    host.inject("ecc", gpu=4, count=2, remap="failure")
    state = host.nvml.read()
    assert (state["gpu.4.ecc.uncorrected.volatile.dram"], state["gpu.4.remap.failure"]) == ("2", "1")
    with pytest.raises(UnknownFault, match="one of pending, failure, done, none"):
        host.inject("ecc", remap="maybe")


def test_clock_and_services_answer_by_their_commands(host: SimHost) -> None:
    host.inject("clock_skew", seconds=300.0)
    host.inject("fabric_down")
    assert "300.000000000 seconds fast" in says(host, "nodevet-commands/chronyc_tracking")
    assert "ActiveState=failed" in says(host, "nodevet-commands/systemctl_show_nvidia-fabricmanager.service")
    assert "ActiveState=active" in says(host, "nodevet-commands/systemctl_show_munge.service")


def test_another_process_sees_and_heals_the_same_faults(host: SimHost) -> None:
    host.inject("nvml_hang", gpu=6)
    other = SimHost(host.folder, "n1")
    assert [(fault.name, fault.target) for fault in other.faults()] == [("nvml_hang", {"gpu": 6})]
    other.heal("nvml_hang")
    assert host.faults() == []
    assert "gpu.6.hang" not in host.nvml.read()


def test_making_a_host_again_keeps_its_boot_and_its_faults(host: SimHost, cache: Path) -> None:
    host.inject("gpu_lost", gpu=3)
    boot = host.identity
    again = SimHost(host.folder, "n1", cache=cache).create()
    assert again.identity == boot
    assert again.nvml.read()["gpu.3.error"] == "15"


@pytest.mark.parametrize(
    ("name", "target", "told"),
    [
        ("gpu_lots", {}, "known: .*gpu_lost"),
        ("gpu_lost", {"gpu": 8}, "does not fit this target"),
        ("gpu_lost", {"port": 1}, "does not fit this target"),
        ("ib_down", {"hca": "mlx4_0"}, "does not fit this target"),
    ],
)
def test_a_fault_that_does_not_fit_is_refused_and_changes_nothing(
    host: SimHost, name: str, target: dict[str, int | str], told: str
) -> None:
    before = picture(host)
    with pytest.raises(UnknownFault, match=told):
        host.inject(name, **target)
    assert (picture(host), host.faults()) == (before, [])


def test_every_fault_explains_itself() -> None:
    for name, function in FAULTS.items():
        assert (inspect.getdoc(function) or "").endswith("."), name


@pytest.mark.parametrize("name", sorted(MOUNTS))
def test_a_mount_fault_is_gone_after_healing(host: SimHost, name: str) -> None:
    if reason := hang_fs.cannot_run():
        pytest.skip(reason)
    where = host.sysroot / "scratch"
    host.inject(name, path="/scratch")
    assert str(where) in Path("/proc/self/mountinfo").read_text()
    host.heal(name)
    assert str(where) not in Path("/proc/self/mountinfo").read_text()
    (where / "file").write_text("free again")


def test_a_full_disk_takes_no_byte(host: SimHost) -> None:
    if reason := hang_fs.cannot_run():
        pytest.skip(reason)
    host.inject("disk_full", path="/tmp")
    with pytest.raises(OSError, match="No space left"):
        (host.sysroot / "tmp/more").write_bytes(b"x" * 100)
