"""The generated trees have the shape and the values of a real HGX H100 node."""

from __future__ import annotations

import ctypes
import os
import re
import stat
import struct
from pathlib import Path

import pynvml
import pytest

from deploy.simcluster.host import SimHost
from deploy.simcluster.tree.files import may_make_devices


def devices(root: Path, vendor: str, device: str) -> list[Path]:
    return [
        path
        for path in sorted((root / "sys/bus/pci/devices").iterdir())
        if (path / "vendor").read_text() == f"{vendor}\n" and (path / "device").read_text() == f"{device}\n"
    ]


def test_pci_shows_gpus_switches_and_adapters(host: SimHost) -> None:
    found = {
        kind: len(devices(host.sysroot, *kind))
        for kind in [("0x10de", "0x2330"), ("0x10de", "0x22a3"), ("0x15b3", "0x1021")]
    }
    assert list(found.values()) == [8, 4, 8]
    gpu = devices(host.sysroot, "0x10de", "0x2330")[0]
    assert gpu.name == "0000:19:00.0"
    assert (gpu / "class").read_text() == "0x030200\n"
    assert (gpu / "current_link_speed").read_text() == "32.0 GT/s PCIe\n"
    assert (gpu / "driver").resolve() == host.sysroot / "sys/bus/pci/drivers/nvidia"
    assert (gpu / "driver").is_dir()


def test_configuration_space_leads_to_the_pci_express_link(host: SimHost) -> None:
    space = (devices(host.sysroot, "0x10de", "0x2330")[0] / "config").read_bytes()
    assert len(space) == 256
    assert struct.unpack_from("<HH", space) == (0x10DE, 0x2330)
    assert space[0x0B] == 0x03
    capabilities, at = {}, space[0x34]
    while at:
        capabilities[space[at]] = at
        at = space[at + 1]
    link = struct.unpack_from("<H", space, capabilities[0x10] + 0x12)[0]
    assert (link & 0xF, link >> 4 & 0x3F) == (5, 16)


def test_adapters_and_their_ports_read_as_sysfs_writes_them(host: SimHost) -> None:
    ports = sorted(host.sysroot.glob("sys/class/infiniband/*/ports/*"))
    assert [path.parent.parent.name for path in ports] == [f"mlx5_{index}" for index in range(8)]
    for path in ports:
        assert (path / "state").read_text() == "4: ACTIVE\n"
        assert (path / "phys_state").read_text() == "5: LinkUp\n"
        assert (path / "rate").read_text() == "400 Gb/sec (4X NDR)\n"
        assert all(file.read_text().strip().isdigit() for file in (path / "counters").iterdir())
        assert (path.parent.parent / "device/vendor").read_text() == "0x15b3\n"
    guids = {path.parent.parent.joinpath("node_guid").read_text() for path in ports}
    assert len(guids) == 8
    assert all(re.fullmatch(r"(?:[0-9a-f]{4}:){3}[0-9a-f]{4}\n", guid) for guid in guids)


def test_mount_table_lines_have_every_field(host: SimHost) -> None:
    lines = (host.sysroot / "proc/self/mountinfo").read_text().splitlines()
    table = {}
    for line in lines:
        left, _, right = line.partition(" - ")
        table[left.split()[4]] = right.split()[0]
        assert len(left.split()) == 6
        assert len(right.split()) == 3
    assert table["/scratch"] == "lustre"
    assert all((host.sysroot / where.lstrip("/")).is_dir() for where in table)


def test_the_boot_is_told_alike_everywhere(host: SimHost) -> None:
    identity = host.identity
    assert (host.sysroot / "proc/sys/kernel/random/boot_id").read_text().strip() == identity.boot_id
    assert f"btime {identity.btime}" in (host.sysroot / "proc/stat").read_text()


def test_every_kernel_record_has_the_form_of_dev_kmsg(host: SimHost) -> None:
    host.kernel_says("a line\nwith \x1b[31m control \\ signs")
    host.kernel_says("NVRM: Xid (PCI:0000:19:00): 79, forged by a user", facility=1, priority=5)
    records = host.kmsg.read_text().splitlines()
    assert all(re.fullmatch(r"\d+,\d+,\d+,-;[^\n]*", record) for record in records)
    numbers = [int(record.split(",")[1]) for record in records]
    assert numbers == list(range(len(records)))
    assert records[-2].split(";")[1] == r"a line\x0awith \x1b[31m control \x5c signs"
    assert records[-1].startswith("13,")


def test_device_files_carry_the_minors_that_nvml_tells(host: SimHost, monkeypatch: pytest.MonkeyPatch) -> None:
    names = sorted(path.name for path in (host.sysroot / "dev").glob("nvidia[0-9]*"))
    assert names == [f"nvidia{minor}" for minor in range(8)]
    if may_make_devices():
        status = (host.sysroot / "dev/nvidia5").stat()
        assert stat.S_ISCHR(status.st_mode)
        assert (os.major(status.st_rdev), os.minor(status.st_rdev)) == (195, 5)


def test_nvml_pci_and_proc_speak_of_the_same_gpus(host: SimHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NODEVET_SIM_NVML", str(host.nvml.path))
    ctypes.CDLL(str(host.nvml_library), ctypes.RTLD_GLOBAL)
    pynvml.nvmlInit()
    addresses = [path.name for path in devices(host.sysroot, "0x10de", "0x2330")]
    for index, address in enumerate(addresses):
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        information = (host.sysroot / f"proc/driver/nvidia/gpus/{address}/information").read_text()
        assert pynvml.nvmlDeviceGetPciInfo(handle).busId.lower() == f"0000{address}"
        assert f"GPU UUID: \t {pynvml.nvmlDeviceGetUUID(handle)}\n" in information
        assert f"Device Minor: \t {pynvml.nvmlDeviceGetMinorNumber(handle)}\n" in information
        assert pynvml.nvmlDeviceGetSerial(handle).startswith("SIM")
    pynvml.nvmlShutdown()


def test_two_hosts_have_different_gpus_and_the_same_name_gives_the_same_ones(
    host: SimHost, cache: Path, tmp_path: Path
) -> None:
    other = SimHost(tmp_path / "n2", "n2", cache=cache).create()
    assert other.identity.gpu_uuid(0) != host.identity.gpu_uuid(0)
    assert other.identity.boot_id != host.identity.boot_id
    before = host.identity
    host.reboot()
    assert host.identity.gpu_uuid(0) == before.gpu_uuid(0)
    assert host.identity.boot_id != before.boot_id


def test_a_simulated_node_says_so_where_an_operator_looks(host: SimHost) -> None:
    for path in ("etc/nodevet-simulated", "proc/version", "sys/class/dmi/id/product_name", "etc/os-release"):
        assert "simulat" in (host.sysroot / path).read_text().lower()
