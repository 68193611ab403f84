"""Libraries, GPUDirect RDMA, NUMA nodes and containers around the GPUs are as the profile asks."""

from __future__ import annotations

import struct

import pytest

from checks import CHECKS, Finding
from checks.gpu.affinity import gpu_affinity
from checks.gpu.containers import gpu_containers
from checks.gpu.driver import gpu_driver
from checks.gpu.peermem import gpu_peermem
from checks.runner import run_check
from tests.fakes import BDFS, FakeNvml, Plant, h100s, pci_tree

Tree = dict[str, str | bytes]
LIB = "/usr/lib/x86_64-linux-gnu"
CLOSED: Tree = {"/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n"}
OPEN: Tree = {
    "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release\n"
}


def codes(found: list[Finding]) -> list[str]:
    return [f.code for f in found]


def elf(size: int, sections_at: int) -> bytes:
    head = struct.pack("<4sBBBBB7xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 0, 3, 62, 1, 0, 64, sections_at, 0, 64, 56,
                       1, 64, 4, 3)  # fmt: skip
    return head + bytes(size - len(head))


# -- libraries


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "has 0 bytes"),
        (b"<html>404</html>", "is no library"),
        (elf(1000, 5000), "is cut off: 1000 of 5256 bytes"),
        ("-> libcuda.so.550.54.15", "leads to libcuda.so.550.54.15, which is missing"),
    ],
)
def test_a_library_that_cannot_be_loaded_is_a_fault(plant: Plant, content: str | bytes, word: str) -> None:
    """E51: present and empty, or cut off by an interrupted installation: every program fails."""
    host = plant(pci_tree() | CLOSED | {f"{LIB}/libcuda.so.1": content}, nvml=h100s())
    (found,) = gpu_driver(host, expected=8)
    assert (found.code, found.status) == ("gpu_driver_library", "fail")
    assert word in found.message


def test_a_whole_library_is_well(plant: Plant) -> None:
    host = plant(pci_tree() | CLOSED | {f"{LIB}/libcuda.so.1": elf(6000, 5000)}, nvml=h100s())
    assert list(gpu_driver(host, expected=8)) == []


def test_a_part_of_the_driver_that_is_not_installed_is_a_warning(plant: Plant) -> None:
    tree = pci_tree() | CLOSED | {f"{LIB}/libnvidia-ml.so.1": elf(100, 0)}
    (found,) = gpu_driver(plant(tree, nvml=h100s()), expected=8)
    assert (found.code, found.status, found.evidence["library"]) == (
        "gpu_driver_library_missing",
        "warn",
        "libcuda.so.1",
    )


def test_a_library_that_only_the_loader_knows_is_there(plant: Plant) -> None:
    cache = b"glibc-ld.so.cache1.1\0/opt/nv/libcuda.so.1\0/opt/nv/libnvidia-ptxjitcompiler.so.1\0"
    tree = pci_tree() | CLOSED | {f"{LIB}/libnvidia-ml.so.1": elf(100, 0), "/etc/ld.so.cache": cache}
    assert list(gpu_driver(plant(tree, nvml=FakeNvml([])), expected=8)) == []


# -- GPUDirect RDMA


@pytest.mark.parametrize(
    ("modules", "driver", "kernel", "expected"),
    [
        ("nvidia\nnvidia_peermem 16384 0 - Live 0x0\n", CLOSED, "5.4.0-100", []),
        ("nv_peer_mem 16384 0\n", CLOSED, "5.4.0-100", []),
        ("nvidia 1 1\n", CLOSED, "6.8.0", ["gpu_peermem_absent"]),
        ("nvidia 1 1\n", OPEN, "6.8.0-45-generic", []),
        ("nvidia 1 1\n", OPEN, "5.4.0-100", ["gpu_peermem_absent"]),
        ("nvidia 1 1\n", OPEN, "garbage", []),
        ("", OPEN, "5.12.0", []),
    ],
)
def test_adapters_reach_gpu_memory_by_a_module_or_by_dma_buf(
    plant: Plant, modules: str, driver: Tree, kernel: str, expected: list[str]
) -> None:
    tree = pci_tree() | driver | {"/proc/modules": modules, "/proc/sys/kernel/osrelease": f"{kernel}\n"}
    found = list(gpu_peermem(plant(tree), expected=True))
    assert codes(found) == expected
    assert {(f.status, f.blame) for f in found} <= {("warn", "config")}


def test_gdrcopy_is_missed_only_where_it_is_wanted(plant: Plant) -> None:
    host = plant(pci_tree() | OPEN | {"/proc/modules": "nvidia 1 1\n", "/proc/sys/kernel/osrelease": "6.8.0\n"})
    assert list(gpu_peermem(host, expected=True)) == []
    assert codes(list(gpu_peermem(host, gdrcopy=True))) == ["gpu_gdrcopy_absent"]
    host.path("/proc/modules").write_text("gdrdrv 1 1\n")
    host.path("/dev").mkdir()
    (found,) = gpu_peermem(host, gdrcopy=True)
    assert found.evidence["missing"] == "/dev/gdrdrv"
    host.path("/dev/gdrdrv").touch()
    assert list(gpu_peermem(host, gdrcopy=True)) == []


def test_nothing_is_asked_of_gpudirect_without_an_expectation(plant: Plant) -> None:
    host = plant(pci_tree() | CLOSED | {"/proc/modules": ""})
    assert [f.status for f in run_check(CHECKS["gpu_peermem"], host).findings] == ["skipped"]


# -- NUMA


def numa(homes: list[int], near: str = "0-3", nodes: int = 2, present: str = "0-7", online: str = "0-7") -> Tree:
    tree: Tree = {"/sys/devices/system/cpu/present": present, "/sys/devices/system/cpu/online": online}
    tree |= {f"/sys/devices/system/node/node{n}/cpulist": f"{4 * n}-{4 * n + 3}\n" for n in range(nodes)}
    # The memory of a GPU (GB200) or of an expander is a node of its own, without processors.
    tree["/sys/devices/system/node/node9/cpulist"] = "\n"
    for bdf, home in zip(BDFS, homes, strict=False):
        tree |= {f"/sys/bus/pci/devices/{bdf}/numa_node": f"{home}\n"}
        tree |= {f"/sys/bus/pci/devices/{bdf}/local_cpulist": f"{near}\n"}
    return tree


@pytest.mark.parametrize(
    ("tree", "nodes", "expected"),
    [
        (numa([0, 0, 0, 0, 1, 1, 1, 1]), 2, []),
        (numa([0, 0, 0, 0, 1, 1, 1, -1]), 2, ["gpu_numa_unknown"]),
        (numa([-1] * 8), 0, ["gpu_numa_unknown"] * 8),
        (numa([-1] * 8, nodes=1), 0, []),
        (numa([0] * 8), 2, ["gpu_numa_lumped"]),
        (numa([0] * 8), 0, []),
        (numa([0, 1] * 4, near="8-11"), 2, ["gpu_affinity_empty"] * 8),
        (numa([0, 1] * 4, near=""), 2, ["gpu_affinity_empty"] * 8),
        (numa([0, 1] * 4, near="0-9"), 2, ["gpu_affinity_empty"] * 8),
        (numa([0, 1] * 4, near="0-3", online="4-7"), 2, ["gpu_affinity_empty"] * 8),
        (numa([0, 1] * 4, near="0-7", online="0-3"), 2, []),
        (numa([0, 1] * 4, near="x-y"), 2, []),
    ],
)
def test_each_gpu_is_near_processors_that_are_there(plant: Plant, tree: Tree, nodes: int, expected: list[str]) -> None:
    found = list(gpu_affinity(plant(pci_tree() | tree), nodes=nodes))
    assert codes(found) == expected
    assert {(f.status, f.blame) for f in found} <= {("warn", "config")}


def test_a_tree_without_numa_files_says_nothing(plant: Plant) -> None:
    assert list(gpu_affinity(plant(pci_tree()), nodes=2)) == []


# -- containers

CDI = """---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: "0"
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
      hostPath: /dev/nvidia0
containerEdits:
  mounts:
  - containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15
    hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15
"""
HERE: Tree = {"/dev/nvidia0": "", "/dev/nvidiactl": "", "/proc/driver/nvidia/gpus/0000:18:00.0/information": "x: y\n"}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (CDI, ""),
        (CDI.replace("550.54.15", "535.183.01"), "libraries of driver 535.183.01, 550.54.15 is loaded"),
        (CDI.replace("/dev/nvidia0", "/dev/nvidia5"), "/dev/nvidia5, which is missing"),
        (CDI.replace("/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap21"), "nvidia-cap21, which is missing"),
        (CDI.replace("nvidia.com/gpu", "nvidia.com/imex-channel").replace("550", "535"), ""),
        ('{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "x": "/lib/libcuda.so.570.1.2"}', "driver 570.1.2"),
        ("\x00garbage: [", ""),
    ],
)
def test_a_description_for_containers_is_held_against_the_node(plant: Plant, text: str, word: str) -> None:
    host = plant(pci_tree() | CLOSED | HERE | {"/etc/cdi/nvidia.yaml": text})
    found = [f for f in run_check(CHECKS["gpu_containers"], host).findings if f.status not in ("ok", "skipped")]
    assert codes(found) == (["gpu_cdi_stale"] if word else [])
    assert all(word in f.message and (f.status, f.blame) == ("warn", "config") for f in found)


def test_a_description_is_missed_only_where_it_is_asked_for(plant: Plant) -> None:
    host = plant(pci_tree() | CLOSED | HERE)
    assert [f.status for f in run_check(CHECKS["gpu_containers"], host).findings] == ["skipped"]
    assert codes(list(gpu_containers(host, cdi=True))) == ["gpu_cdi_absent"]


def test_enroot_pyxis_and_programs_are_usable_where_they_are_asked_for(plant: Plant) -> None:
    host = plant(
        pci_tree()
        | CLOSED
        | {
            "/etc/enroot/hooks.d/98-nvidia.sh": "#!/bin/sh\n",
            "/usr/bin/nvidia-container-cli": "x",
            "/usr/bin/nvidia-ctk": "",
            "/etc/slurm/plugstack.conf": "include /etc/slurm/plugstack.conf.d/*\n# optional /a/spank_pyxis.so\n",
            "/etc/slurm/plugstack.conf.d/pyxis.conf": "required /usr/lib/slurm/spank_pyxis.so runtime_path=/run\n",
        }
    )
    asked = {"enroot": True, "pyxis": True, "programs": ("/usr/bin/nvidia-ctk",)}
    found = list(gpu_containers(host, **asked))
    assert [f.evidence["why"] for f in found] == [
        "/etc/enroot/hooks.d/98-nvidia.sh is not executable",
        "/usr/bin/nvidia-container-cli is not executable",
        "/usr/lib/slurm/spank_pyxis.so is missing",
        "/usr/bin/nvidia-ctk has 0 bytes",
    ]
    for path in ("/etc/enroot/hooks.d/98-nvidia.sh", "/usr/bin/nvidia-container-cli", "/usr/bin/nvidia-ctk"):
        host.path(path).write_text("x")
        host.path(path).chmod(0o755)
    host.path("/usr/lib/slurm").mkdir(parents=True)
    host.path("/usr/lib/slurm/spank_pyxis.so").touch()
    assert list(gpu_containers(host, **asked)) == []
