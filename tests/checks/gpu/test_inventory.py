"""GPUs of one node are held against each other and against what the site accepts."""

from __future__ import annotations

import dataclasses

import pytest

from checks import CHECKS, Finding
from checks.gpu.inventory import Identity, gpu_identity, gpu_inventory
from checks.gpu.values import Fault, NvmlError
from checks.runner import run_check
from tests.fakes import BDFS, FakeNvml, Plant, h100s, pci_tree

H100 = Identity("96.00.99.00.01", "G520.0200.00.05", "692-2G520-0200-000", 81559)


def alike(count: int = 8, **changed: Identity | NvmlError) -> FakeNvml:
    """H100s of which some (``gpu3``) are told otherwise."""
    nvml = h100s(count)
    for index in range(count):
        nvml[index].told[gpu_identity] = changed.get(f"gpu{index}", H100)
    return nvml


def bad(found: list[Finding]) -> list[tuple[str, str]]:
    return [(f.code, f.target) for f in found if f.status != "ok"]


def test_alike_is_well_and_the_version_is_kept(plant: Plant) -> None:
    (found,) = gpu_inventory(plant(pci_tree(), nvml=alike()))
    assert (found.status, found.evidence["vbios"]) == ("ok", "96.00.99.00.01")


@pytest.mark.parametrize(
    ("field", "value", "word"),
    [
        ("vbios", "96.00.74.00.01", "VBIOS is 96.00.74.00.01"),
        ("inforom", "G520.0200.00.04", "infoROM image is"),
        ("board", "692-2G520-0205-000", "board part number is"),
    ],
)
def test_one_that_differs_from_the_others_is_told(plant: Plant, field: str, value: str, word: str) -> None:
    nvml = alike(gpu3=dataclasses.replace(H100, **{field: value}))  # type: ignore[arg-type]
    found = list(gpu_inventory(plant(pci_tree(), nvml=nvml)))
    assert bad(found) == [("gpu_firmware_mixed", BDFS[3])]
    assert word in found[0].message
    assert (found[0].status, found[0].blame) == ("warn", "config")


def test_of_two_halves_the_older_is_told(plant: Plant) -> None:
    older = dataclasses.replace(H100, vbios="96.00.74.00.01")
    found = list(gpu_inventory(plant(pci_tree(2), nvml=alike(2, gpu0=older))))
    assert bad(found) == [("gpu_firmware_mixed", BDFS[0])]


def test_what_the_site_accepts_decides(plant: Plant) -> None:
    """E112: six of eleven nodes were alike and all of them old."""
    host = plant(pci_tree(), nvml=alike(gpu0=dataclasses.replace(H100, vbios="96.00.A5.00.02")))
    asked = ("96.00.A5.00.02", "96.00.99.00.01")
    assert bad(list(gpu_inventory(host, vbios=asked))) == []
    assert bad(list(gpu_inventory(host, vbios=asked[:1]))) == [("gpu_firmware_other", b) for b in BDFS[1:]]
    assert bad(list(gpu_inventory(host, models=("H200",)))) == [
        *[("gpu_firmware_other", b) for b in BDFS],
        ("gpu_firmware_mixed", BDFS[0]),
    ]


def test_models_are_mixed_only_where_nobody_named_them(plant: Plant) -> None:
    nvml = alike(2)
    nvml[1].gpu = dataclasses.replace(nvml[1].gpu, name="NVIDIA T1000")
    nvml[1].told[gpu_identity] = Identity("90.17.4D.00.01", "", "", 4096)
    host = plant(pci_tree(2), nvml=nvml)
    assert bad(list(gpu_inventory(host))) == [("gpu_models_mixed", "node")]
    assert bad(list(gpu_inventory(host, models=("h100", "T1000")))) == []


@pytest.mark.parametrize(("mib", "expected"), [(81559, []), (81251, []), (65247, [("gpu_memory_small", BDFS[5])])])
def test_less_memory_than_its_like_is_told(plant: Plant, mib: int, expected: list[tuple[str, str]]) -> None:
    nvml = alike(gpu5=dataclasses.replace(H100, memory_mib=mib))
    assert bad(list(gpu_inventory(plant(pci_tree(), nvml=nvml)))) == expected


def test_memory_is_held_against_the_setting(plant: Plant) -> None:
    host = plant(pci_tree(), nvml=alike())
    assert bad(list(gpu_inventory(host, memory_mib=81559))) == []
    assert len(bad(list(gpu_inventory(host, memory_mib=143771)))) == 8


def test_a_uuid_that_two_have_is_told_and_a_shared_serial_number_is_not(plant: Plant) -> None:
    """Two GPUs on one board of a GB200 have one serial number."""
    nvml = alike()
    for index in (1, 2):
        nvml[index].gpu = dataclasses.replace(nvml[index].gpu, serial=nvml[0].gpu.serial)
    host = plant(pci_tree(), nvml=nvml)
    assert bad(list(gpu_inventory(host))) == []
    nvml[4].gpu = dataclasses.replace(nvml[4].gpu, uuid=nvml[3].gpu.uuid)
    assert bad(list(gpu_inventory(host))) == [("gpu_uuid_twice", BDFS[4])]


def test_a_gpu_that_was_taken_out_is_told(plant: Plant) -> None:
    text = "Model: \t\t NVIDIA H100\nGPU UUID: \t ??\nVideo BIOS: \t ??.??.??.??.??\nGPU Excluded:\t Yes\n"
    tree = pci_tree() | {"/proc/driver/nvidia/gpus/0000:18:00.0/information": text}
    assert bad(list(gpu_inventory(plant(tree, nvml=alike(7))))) == [("gpu_excluded", BDFS[0])]


@pytest.mark.parametrize("fault", list(Fault))
def test_a_gpu_that_does_not_tell_is_no_fault(plant: Plant, fault: Fault) -> None:
    host = plant(pci_tree(), nvml=alike(gpu2=NvmlError(fault)))
    found = [f for f in run_check(CHECKS["gpu_inventory"], host).findings if f.status != "ok"]
    told = "gpu_no_permission" if fault is Fault.NO_PERMISSION else "gpu_unanswered"
    assert [(f.code, f.status) for f in found] in ([], [(told, "unknown")])


def test_what_is_not_told_is_not_compared(plant: Plant) -> None:
    assert bad(list(gpu_inventory(plant(pci_tree(), nvml=alike(gpu1=Identity()))))) == []
