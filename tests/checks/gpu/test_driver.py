"""A driver that does not open is judged by why, and by whether anybody expects it."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks import CHECKS, Host
from checks.gpu.driver import gpu_driver
from checks.gpu.nvml import open_nvml
from checks.gpu.values import Fault, NvmlError, normal_bdf
from checks.runner import run_check
from tests.fakes import FakeNvml, Plant, h100s, pci_tree

MODULE = {
    "/proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar 5 22:23:56 UTC\n"
}


class Closed(Host):
    """A host whose NVML does not open."""

    fault: Fault = Fault.UNKNOWN

    def nvml(self) -> FakeNvml:
        raise NvmlError(self.fault)


def closed(host: Host, fault: Fault) -> Host:
    made = Closed(root=host.root)
    made.fault = fault
    return made


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault.DRIVER_MISMATCH, ("gpu_driver_mismatch", "fail", "node")),
        (Fault.LIBRARY_NOT_FOUND, ("gpu_driver_library", "fail", "node")),
        (Fault.DRIVER_NOT_LOADED, ("gpu_driver_not_loaded", "fail", "node")),
        (Fault.UNKNOWN, ("gpu_driver_unanswered", "unknown", "node")),
        (Fault.TIMEOUT, ("gpu_driver_unanswered", "unknown", "node")),
        (Fault.OTHER, ("gpu_driver_unanswered", "unknown", "node")),
        (Fault.NO_PERMISSION, ("gpu_driver_no_permission", "unknown", "self")),
    ],
)
def test_judges_why_it_does_not_open(plant: Plant, fault: Fault, expected: tuple[str, str, str]) -> None:
    """E50: a version mismatch has its own reason; an unknown error of the whole driver is no fault."""
    (found,) = gpu_driver(closed(plant(pci_tree() | MODULE), fault), expected=8)
    assert (found.code, found.status, found.blame) == expected


@pytest.mark.parametrize("fault", [Fault.LIBRARY_NOT_FOUND, Fault.DRIVER_NOT_LOADED])
def test_a_gpu_that_nobody_expects_may_lack_its_driver(plant: Plant, fault: Fault) -> None:
    host = closed(plant(pci_tree(1, switches=0)), fault)
    assert [f.status for f in run_check(CHECKS["gpu_driver"], host).findings] == ["skipped"]


def test_a_loaded_module_without_its_library_is_a_fault(plant: Plant) -> None:
    host = closed(plant(pci_tree() | MODULE), Fault.LIBRARY_NOT_FOUND)
    assert [f.code for f in gpu_driver(host)] == ["gpu_driver_library"]


def test_an_empty_library_is_a_fault(plant: Plant) -> None:
    """E51: the library is there and has 0 bytes."""
    host = plant(pci_tree() | MODULE | {"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1": ""})
    (found,) = gpu_driver(host, expected=8)
    assert (found.code, found.status) == ("gpu_driver_library", "fail")
    assert "0 bytes" in found.message


def test_a_library_emptied_under_one_that_is_open_is_named(plant: Plant) -> None:
    """E51: what we opened before goes on working, what a job opens does not."""
    tree = pci_tree() | MODULE | {"/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1": ""}
    (found,) = gpu_driver(plant(tree, nvml=h100s()), expected=8)
    assert (found.code, found.status) == ("gpu_driver_library", "fail")
    assert found.message == "driver library /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1 has 0 bytes"


@pytest.mark.parametrize(("content", "text"), [(b"", "0 bytes"), (b"not a library", "does not load")])
def test_a_library_that_does_not_load_is_named(tmp_path: Path, content: bytes, text: str) -> None:
    """E51: dlopen says why."""
    path = tmp_path / "libnvidia-ml.so.1"
    path.write_bytes(content)
    with pytest.raises(NvmlError, match=text) as caught:
        open_nvml(Host(root=tmp_path, nvml_library=path))
    assert caught.value.fault is Fault.LIBRARY_NOT_FOUND


def test_a_redirected_host_never_opens_our_own_driver(tmp_path: Path) -> None:
    with pytest.raises(NvmlError, match="no NVML for the tree"):
        open_nvml(Host(root=tmp_path))


def test_another_version_than_the_profiles_is_a_warning(plant: Plant) -> None:
    """E112: six of eleven nodes had an old driver and only slow training showed it."""
    (found,) = gpu_driver(plant(pci_tree(), nvml=h100s()), version="580.10")
    assert (found.code, found.status, found.blame) == ("gpu_driver_version", "warn", "config")


def test_a_branch_may_be_named_in_place_of_a_version(plant: Plant) -> None:
    """E112: "580" is any driver of that branch; no other and no part of a number fits."""
    host = plant(pci_tree(), nvml=h100s())
    whole = host.nvml().driver()
    branch = whole.partition(".")[0]
    assert [list(gpu_driver(host, version=v)) for v in (whole, branch)] == [[], []]
    assert [f.code for v in ("450", branch[:-1]) for f in gpu_driver(host, version=v)] == ["gpu_driver_version"] * 2


LIB = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"


@pytest.mark.parametrize(
    ("links", "driver", "expected"),
    [
        ({LIB: "-> libnvidia-ml.so.550.54.15"}, "550.54.15", []),
        ({LIB: "-> libnvidia-ml.so.580.95.05"}, "550.54.15", ["gpu_driver_mismatch"]),
        (
            {LIB: "-> libnvidia-ml.so.580.95.05", "/usr/lib64/libnvidia-ml.so.1": "-> libnvidia-ml.so.550.54.15"},
            "550.54.15",
            [],
        ),
        ({LIB: "-> stand-in.so"}, "550.54.15", []),
        ({}, "580.95.05", ["gpu_driver_mismatch"]),
        ({}, "550.54.15", []),
    ],
)
def test_an_upgrade_under_a_held_library_is_seen(
    plant: Plant, links: dict[str, str], driver: str, expected: list[str]
) -> None:
    """E50: the resident process goes on working while no new program can start."""
    host = plant(pci_tree() | MODULE | links, nvml=FakeNvml([], driver))
    assert [f.code for f in gpu_driver(host)] == expected


def test_says_nothing_of_a_driver_that_answers(plant: Plant) -> None:
    assert list(gpu_driver(plant(pci_tree(), nvml=h100s()), expected=8)) == []


@pytest.mark.parametrize(
    ("text", "bdf"),
    [
        ("00000000:5D:00.0", "0000:5d:00.0"),
        ("PCI:0000:5d:00", "0000:5d:00.0"),
        ("0019:01:00", "0019:01:00.0"),
        ("5d:00.1", "0000:5d:00.1"),
        ("0000:5d", ""),
        ("", ""),
        ("GPU-1234", ""),
        ("0000:zz:00.0", ""),
        ("-1:00:00.0", ""),
        ("0000:100:00.0", ""),
    ],
)
def test_spells_a_pci_id_as_the_kernel_does(text: str, bdf: str) -> None:
    assert normal_bdf(text) == bdf
