"""The fabric's health mask is read field by field, and the GPUs of one node belong together."""

from __future__ import annotations

import pynvml
import pytest

from checks.gpu.fabric import gpu_fabric
from checks.gpu.fabric_health import Health, health
from checks.gpu.values import Fabric
from tests.fakes import BDFS, Plant, h100s, pci_tree

UPTIME = {"/proc/uptime": "5000.0 1.0"}


def mask(**fields: int) -> int:
    """A mask by the names of NVML's header."""
    value = 0
    for name, number in fields.items():
        value |= number << int(getattr(pynvml, f"NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_{name}"))
    return value


HEALTHY = mask(
    DEGRADED_BW=2, ROUTE_RECOVERY=2, ROUTE_UNHEALTHY=2, ACCESS_TIMEOUT_RECOVERY=2,
    INCORRECT_CONFIGURATION=1, PARTITION_ASSIGNED=1, GFM_STATE=1,
)  # fmt: skip


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, Health()),
        (HEALTHY, Health()),
        (mask(DEGRADED_BW=1), Health(slow=("bandwidth degraded",))),
        (mask(ROUTE_RECOVERY=1, ROUTE_UNHEALTHY=2), Health(slow=("route recovery in progress",))),
        (mask(ACCESS_TIMEOUT_RECOVERY=1), Health(slow=("access timeout recovery",))),
        (mask(ROUTE_UNHEALTHY=1), Health(broken=("route unhealthy",))),
        (mask(INCORRECT_CONFIGURATION=2), Health(wrong=("system GUID is wrong",))),
        (mask(INCORRECT_CONFIGURATION=3), Health(wrong=("chassis serial number is wrong",))),
        (mask(INCORRECT_CONFIGURATION=4, PARTITION_ASSIGNED=2), Health(wrong=("no partition",))),
        (mask(INCORRECT_CONFIGURATION=5), Health(slow=("too few NVLinks",))),
        (mask(INCORRECT_CONFIGURATION=8), Health(wrong=("state of the GPU is not valid",))),
        (mask(INCORRECT_CONFIGURATION=15), Health()),
        (mask(PARTITION_ASSIGNED=2), Health(wrong=("no partition assigned",))),
        (mask(GFM_STATE=2), Health(alone=True)),
        (mask(DEGRADED_BW=3, ROUTE_UNHEALTHY=3), Health()),
    ],
)
def test_reads_the_mask_by_its_fields(value: int, expected: Health) -> None:
    assert health(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (HEALTHY, []),
        (mask(ROUTE_UNHEALTHY=1, DEGRADED_BW=1), [("gpu_fabric_unhealthy", "fail", "node")]),
        (mask(DEGRADED_BW=1), [("gpu_fabric_degraded", "warn", "node")]),
        (mask(INCORRECT_CONFIGURATION=7), [("gpu_fabric_misconfigured", "warn", "config")]),
        (mask(GFM_STATE=2), [("gpu_fabric_unmanaged", "warn", "fabric")]),
    ],
)
def test_judges_the_mask(plant: Plant, value: int, expected: list[tuple[str, str, str]]) -> None:
    """Like E59: completed and successful, and yet not well."""
    nvml = h100s()
    for index in range(8):
        nvml[index].fabric = Fabric(3, 0, 7, "ab" * 16, HEALTHY)
    nvml[2].fabric = Fabric(3, 0, 7, "ab" * 16, value)
    found = [f for f in gpu_fabric(plant(pci_tree() | UPTIME, nvml=nvml)) if f.status != "ok"]
    assert [(f.code, f.status, f.blame) for f in found] == expected


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (Fabric(3, 0, 7, "ab" * 16), []),
        (Fabric(3, 0, 8, "ab" * 16), ["clique 8, while 7 of 8 GPUs of this node have 7"]),
        (Fabric(3, 0, 7, "cd" * 16), [f"cluster {'cd' * 16}, while 7 of 8 GPUs of this node have {'ab' * 16}"]),
        (Fabric(0), []),
        (Fabric(3), []),
    ],
)
def test_the_gpus_of_a_node_belong_to_one_cluster_and_clique(plant: Plant, other: Fabric, expected: list[str]) -> None:
    nvml = h100s()
    for index in range(8):
        nvml[index].fabric = Fabric(3, 0, 7, "ab" * 16)
    nvml[5].fabric = other
    found = [f for f in gpu_fabric(plant(pci_tree() | UPTIME, nvml=nvml)) if f.status != "ok"]
    assert [f.message for f in found] == expected
    assert all((f.code, f.target, f.status, f.blame) == ("gpu_fabric_split", BDFS[5], "warn", "config") for f in found)


@pytest.mark.parametrize(
    ("expected", "codes"),
    [
        ("", ["ok"]),
        ("abababab-abab-abab-abab-ABABABABABAB", ["ok"]),
        ("00000000-0000-0000-0000-000000000001", ["gpu_fabric_other_cluster", "ok"]),
    ],
)
def test_a_site_says_which_domain_a_node_is_in(plant: Plant, expected: str, codes: list[str]) -> None:
    """Rule 4: never by what the neighbours happen to have now."""
    nvml = h100s(2)
    for index in range(2):
        nvml[index].fabric = Fabric(3, 0, 7, "ab" * 16)
    found = list(gpu_fabric(plant(pci_tree(2) | UPTIME, nvml=nvml), cluster=expected))
    assert [f.code for f in found] == codes
    assert (found[-1].evidence["cluster"], found[-1].evidence["clique"]) == ("ab" * 16, "7")
