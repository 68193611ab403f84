"""Device files are judged by kind, number and mode against what the loaded driver says."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from checks import CHECKS, Host
from checks.gpu.device_files import gpu_device_files, judge_file
from checks.profile import match_profile, profiles
from checks.runner import run_check
from deploy.simcluster.host import SimHost
from deploy.simcluster.tree.files import may_make_devices
from tests.fakes import Plant, device_nodes, pci_tree

DRIVER: dict[str, str | bytes] = {
    "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n",
    "/proc/driver/nvidia/params": "DeviceFileUID: 0\nDeviceFileMode: 438\n",
    "/proc/devices": "Character devices:\n195 nvidia\n195 nvidiactl\n508 nvidia-uvm\n509 nvidia-caps\n\n"
    "Block devices:\n195 sr\n",
}


def device(mode: int = 0o666, major: int = 195, minor: int = 0, kind: int = stat.S_IFCHR) -> os.stat_result:
    fields = [kind | mode, 1, 1, 1, 0, 0, 0, 0, 0, 0]
    # The number of a special file is no part of the first ten fields.
    return os.stat_result((*fields, *[0.0] * 3, *[0] * 3, 4096, 0, os.makedev(major, minor)))


def judged(seen: os.stat_result, mode: int = 0o666, exact: bool = False) -> list[tuple[str, str]]:
    found = judge_file(seen, "/dev/nvidia0", major=195, minor=0, mode=mode, exact=exact)
    return [(f.code, f.message.removeprefix("/dev/nvidia0 ")) for f in found]


def test_a_regular_file_in_place_of_a_device_is_told() -> None:
    (found,) = judged(device(kind=stat.S_IFREG))
    assert found == ("gpu_device_file_wrong", "is a regular file, expected character device 195:0")


@pytest.mark.parametrize(
    ("seen", "mode", "exact", "expected"),
    [
        (device(), 0o666, False, []),
        (device(kind=stat.S_IFDIR), 0o666, False, ["gpu_device_file_wrong"]),
        (device(kind=stat.S_IFBLK), 0o666, False, ["gpu_device_file_wrong"]),
        (device(minor=1), 0o666, False, ["gpu_device_file_wrong"]),
        (device(major=234), 0o666, False, ["gpu_device_file_wrong"]),
        (device(0o600), 0o666, False, ["gpu_device_file_mode"]),
        (device(0o660), 0o666, False, ["gpu_device_file_mode"]),
        (device(0o660), 0o660, False, []),
        (device(0o666), 0o660, False, []),
        (device(0o666), 0o660, True, ["gpu_device_file_mode"]),
    ],
)
def test_kind_number_and_mode_are_compared(seen: os.stat_result, mode: int, exact: bool, expected: list[str]) -> None:
    assert [code for code, _ in judged(seen, mode, exact)] == expected


def test_everything_here_is_a_warning_only() -> None:
    declared = CHECKS["gpu_device_files"].codes
    assert {c.status for c in declared} == {"warn", "unknown"}


def test_a_control_file_that_is_missing_is_told(plant: Plant) -> None:
    tree = pci_tree() | device_nodes() | DRIVER
    del tree["/dev/nvidia-uvm"]
    (found,) = gpu_device_files(plant(tree))
    assert (found.code, found.target, found.status) == ("gpu_device_file_missing", "/dev/nvidia-uvm", "warn")


def test_files_that_a_profile_adds_are_wanted_too(plant: Plant) -> None:
    host = plant(pci_tree() | device_nodes() | DRIVER)
    assert list(gpu_device_files(host)) == []
    (found,) = gpu_device_files(host, files=("nvidiactl", "nvidia-modeset"))
    assert found.target == "/dev/nvidia-modeset"


def test_a_capability_of_an_instance_that_is_missing_is_told(plant: Plant) -> None:
    """After a reboot instances are made anew by a service, and their files by nvidia-modprobe."""
    caps = "/proc/driver/nvidia/capabilities/gpu0/mig"
    access = "DeviceFileMinor: {}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"
    tree = pci_tree() | device_nodes() | DRIVER
    tree |= {f"{caps}/config": access.format(1), f"{caps}/gi1/access": access.format(12)}
    tree |= {f"{caps}/gi1/ci0/access": access.format(13), "/dev/nvidia-caps/nvidia-cap12": ""}
    (found,) = gpu_device_files(plant(tree))
    assert found.target == "/dev/nvidia-caps/nvidia-cap13"


@pytest.mark.parametrize("mode", ["rw", "0", "7777", "999"])
def test_a_mode_that_is_none_is_our_own_trouble(plant: Plant, mode: str) -> None:
    (found,) = gpu_device_files(plant(pci_tree() | device_nodes() | DRIVER), mode=mode)
    assert (found.code, found.blame) == ("gpu_device_file_unset", "self")


@pytest.mark.parametrize("tree", [{}, pci_tree(), pci_tree() | {"/proc/driver/nvidia/version": ""}])
def test_nothing_is_said_without_gpu_driver_or_devices(plant: Plant, tree: dict[str, str | bytes]) -> None:
    assert [f.status for f in run_check(CHECKS["gpu_device_files"], plant(tree)).findings] == ["skipped"]


def test_garbage_is_no_fault(plant: Plant) -> None:
    odd: dict[str, str | bytes] = {"/proc/devices": b"\xff\n195\nx nvidia\n", "/proc/driver/nvidia/params": "::\nA"}
    odd["/proc/driver/nvidia/gpus/0000:18:00.0/information"] = "Device Minor: \t -7\n\x00"
    host = plant(pci_tree() | device_nodes() | DRIVER | odd)
    assert list(gpu_device_files(host)) == []


def test_a_written_over_device_of_a_simulated_node_is_found_and_heals(tmp_path: Path) -> None:
    sim = SimHost(tmp_path / "n1", "n1").create()
    host = Host(root=sim.sysroot, simulated=True)
    assert match_profile(host, profiles()).name == "hgx-h100"
    assert list(gpu_device_files(host)) == []
    sim.inject("device_file_replaced", name="nvidia4")
    (found,) = gpu_device_files(host)
    assert (found.code, found.target) == ("gpu_device_file_wrong", "/dev/nvidia4")
    sim.heal()
    assert list(gpu_device_files(host)) == []
    assert host.path("/dev/nvidia4").exists()
    if may_make_devices():
        host.path("/dev/nvidia-uvm").chmod(0o600)
        assert [f.code for f in gpu_device_files(host)] == ["gpu_device_file_mode"]
