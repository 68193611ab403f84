"""Which ports are the jobs' is told from sysfs and the routes, however the node is wired."""

from __future__ import annotations

import pytest

from checks.gpu.fabric_manager import fabric_manager
from checks.net.ib_port import ib_port
from checks.net.ports import ports
from tests.checks.net.test_ib_port import POLLING, UP, brief, hcas, port
from tests.fakes import Plant, pci_tree

ROUTE = "Iface Destination Gateway Flags RefCnt Use Metric Mask\n"
DEFAULT = "{}\t00000000\t0101A8C0\t0003\t0\t0\t{}\t00000000\n"
BDF = "0000:81:00.0"
DEVICE = f"-> ../../../bus/pci/devices/{BDF}"
FOUND = {f"/sys/bus/pci/devices/{BDF}/class": "0x020000\n"}


def on_device(hca: str, interface: str) -> dict[str, str]:
    return FOUND | {f"/sys/class/infiniband/{hca}/device": DEVICE, f"/sys/class/net/{interface}/device": DEVICE}


def test_the_default_route_over_ipoib_takes_no_port_away(plant: Plant) -> None:
    """Like E73: an InfiniBand-only node routes over ib0, whose adapter is one of the eight all the same."""
    tree = hcas(8) | on_device("mlx5_0", "ib0") | {"/proc/net/route": ROUTE + DEFAULT.format("ib0", 0)}
    assert list(ib_port(plant(tree), count=8, min_gbps=400)) == []


def test_a_rail_with_the_default_route_can_be_named(plant: Plant) -> None:
    """Like E73: RoCE rails of a cloud, one of them routing."""
    tree = port("mlx5_0/1", layer="Ethernet") | on_device("mlx5_0", "eth0")
    host = plant(tree | {"/proc/net/route": ROUTE + DEFAULT.format("eth0", 0)})
    assert list(ib_port(host, expected=("mlx5_0/1",))) == []


@pytest.mark.parametrize(
    "links",
    [
        {"/sys/class/net/bond0/lower_eth0": "-> ../eth0"},
        {"/sys/class/net/bond0/lower_vlan7": "-> ../vlan7", "/sys/class/net/vlan7/lower_eth0": "-> ../eth0"},
        {"/sys/class/net/bond0/lower_bond0": "-> ../bond0", "/sys/class/net/bond0/lower_eth0": "-> ../eth0"},
    ],
)
def test_management_behind_a_bond_hides_no_lost_port(plant: Plant, links: dict[str, str]) -> None:
    """Like E73, E80: eight adapters, one down, and a ninth that only carries the administrators' bond."""
    tree = hcas(8, mlx5_3=POLLING) | port("mlx5_bond_0/1", layer="Ethernet") | on_device("mlx5_bond_0", "eth0") | links
    host = plant(tree | {"/proc/net/route": ROUTE + DEFAULT.format("bond0", 0)})
    assert brief(list(ib_port(host, count=8))) == [("mlx5_3/1", "ib_port_down")]


def test_the_default_route_may_be_ipv6(plant: Plant) -> None:
    none = "0" * 32
    row = "{} 00 {} 00 {} {:08x} 00000001 00000000 {:08x} {}\n"
    routes = row.format(none, none, none, 0xFFFFFFFF, 0x200200, "lo") + row.format(none, none, none, 1024, 3, "eth0")
    tree = hcas(1) | port("mlx5_9/1", POLLING, layer="Ethernet") | on_device("mlx5_9", "eth0")
    host = plant(tree | {"/proc/net/route": ROUTE, "/proc/net/ipv6_route": routes})
    assert list(ib_port(host, count=1)) == []


def test_the_route_with_the_lowest_metric_counts(plant: Plant) -> None:
    tree = hcas(1) | port("mlx5_9/1", POLLING, layer="Ethernet") | on_device("mlx5_9", "eth0")
    routes = ROUTE + DEFAULT.format("eth7", 500) + DEFAULT.format("eth0", 100) + "short\n" + DEFAULT.format("x", "²")
    assert list(ib_port(plant(tree | {"/proc/net/route": routes}), count=1)) == []


def b200() -> dict[str, str | bytes]:
    """Eight adapters of the jobs, and four that manage NVSwitches which the PCI bus does not show."""
    tree: dict[str, str | bytes] = {**pci_tree(8, switches=0), **hcas(12, mlx5_8=POLLING, mlx5_9=POLLING)}
    for number in range(8, 12):
        tree[f"/sys/class/infiniband/mlx5_{number}/device/vpd"] = b"\x82ConnectX-7\x90\x20V3SW_MNG-2.0"
    return tree


def test_what_manages_an_nvswitch_is_no_adapter(plant: Plant) -> None:
    """E75: HGX B200 shows four mlx5 devices for its switches: neither counted nor judged nor read."""
    host = plant(b200() | {"/sys/class/infiniband_verbs/uverbs0/ibdev": "mlx5_0\n"})
    assert len(ports(host)) == 8
    assert [f for f in ib_port(host, count=8) if f.code != "ib_no_verbs"] == []
    assert {f.target for f in ib_port(host, count=8)} == {f"mlx5_{n}" for n in range(1, 8)}


def test_a_lost_port_is_not_made_up_for_by_a_switch_manager(plant: Plant) -> None:
    """E75: eleven of twelve devices up, and one of the eight that matter is not."""
    host = plant(b200() | port("mlx5_2/1", POLLING))
    assert brief(list(ib_port(host, count=8))) == [("mlx5_2/1", "ib_port_down")]


def test_a_dead_fabric_manager_is_missed_where_switches_show_as_adapters(plant: Plant) -> None:
    """E59, E75: HGX B200 has no NVSwitch of class 0680, and its fabric manager matters as much."""
    show = "/nodevet-commands/systemctl_show_-p_LoadState,ActiveState,SubState_nvidia-fabricmanager.service"
    host = plant(b200() | {show: "LoadState=loaded\nActiveState=failed\nSubState=failed\n"})
    assert [f.code for f in fabric_manager(host)] == ["fabric_manager_down"]


def test_a_software_adapter_makes_up_for_none(plant: Plant) -> None:
    """Like E79: soft RoCE on the management network fills no gap."""
    host = plant(hcas(8, mlx5_4=POLLING) | port("rxe0/1") | port("siw_eth0/1"))
    assert brief(list(ib_port(host, count=8))) == [("mlx5_4/1", "ib_port_down")]


@pytest.mark.parametrize("state", ["4: ACTIVE", "ACTIVE", "4: Active", "5: ACTIVE_DEFER"])
def test_spellings_of_a_port_that_is_up(plant: Plant, state: str) -> None:
    assert list(ib_port(plant(port("mlx5_0/1", (state, *UP[1:]))), count=1)) == []


@pytest.mark.parametrize(
    ("rate", "expected"),
    [
        ("50 Gb/sec (2X HDR)", [("mlx5_0/1", "ib_port_slow")]),
        ("2.5 Gb/sec (1X SDR)", [("mlx5_0/1", "ib_port_slow")]),
        ("100 Gb/sec (2X HDR)", []),
        ("N/A", []),
        ("", []),
    ],
)
def test_spellings_of_a_rate(plant: Plant, rate: str, expected: list[tuple[str, str]]) -> None:
    """Like E76: a rate that is not told is no slow one."""
    host = plant(port("mlx5_0/1", (*UP[:2], rate)))
    assert brief(list(ib_port(host, count=1, min_gbps=100))) == expected


@pytest.mark.parametrize("state", ["", "garbage", "-1", "²³", "9" * 400, "6: HIBERNATING"])
def test_a_state_that_we_do_not_know_is_no_fault(plant: Plant, state: str) -> None:
    """Like E76: a file cut short or a word of a later kernel is unknown, and the port counts as there."""
    host = plant(hcas(2, mlx5_1=(state, *UP[1:])))
    (found,) = ib_port(host, count=2)
    assert (found.target, found.code, found.status) == ("mlx5_1/1", "ib_port_unreadable", "unknown")


def test_a_counter_in_other_digits_is_no_number(plant: Plant) -> None:
    host = plant(hcas(1) | {"/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed": "²³\n"})
    assert list(ib_port(host, count=1)) == []


def on_bus(vendor: str, device: str, kind: str) -> dict[str, str]:
    base = "/sys/bus/pci/devices/0000:69:01.0"
    return {f"{base}/vendor": f"0x{vendor}\n", f"{base}/device": f"0x{device}\n", f"{base}/class": f"0x{kind}00\n"}


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (on_bus("8086", "24f0", "0208"), [("node", "ib_port_count_low"), ("0000:69:01.0", "ib_adapter_dead")]),
        (on_bus("1d0f", "efa2", "0200"), [("node", "ib_port_count_low"), ("0000:69:01.0", "ib_adapter_dead")]),
        (on_bus("1077", "7322", "0207"), [("node", "ib_port_count_low"), ("0000:69:01.0", "ib_adapter_dead")]),
        (on_bus("15b3", "1003", "0280"), [("node", "ib_port_count_low"), ("0000:69:01.0", "ib_adapter_dead")]),
        (on_bus("15b3", "673c", "0c06"), [("node", "ib_port_count_low"), ("0000:69:01.0", "ib_adapter_dead")]),
        (on_bus("14e4", "1750", "0200"), [("node", "ib_port_no_sign")]),
        (on_bus("8086", "2723", "0280"), [("node", "ib_port_no_sign")]),
    ],
)
def test_other_makers_adapters_without_a_driver_are_missed(
    plant: Plant, function: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    """Like E79, E76, E82: Omni-Path, EFA, QLogic, older ConnectX; an Ethernet adapter alone proves nothing."""
    host = plant({**function, "/sys/class/net/lo/type": "772\n"})
    assert brief(list(ib_port(host, count=1))) == expected


@pytest.mark.parametrize("names", [("mlx5_0", "mlx5_1"), ("mlx5_0:1", "mlx5_1:1"), ("mlx5_0/1", "mlx5_1/1")])
def test_other_spellings_of_an_expected_port(plant: Plant, names: tuple[str, ...]) -> None:
    host = plant(hcas(2, mlx5_1=POLLING))
    assert brief(list(ib_port(host, expected=names))) == [("mlx5_1/1", "ib_port_down")]


def test_renamed_adapters_are_a_matter_of_settings(plant: Plant) -> None:
    """Like E73: after an upgrade every adapter has another name, and all of them are up."""
    tree = port("ibp26s0/1") | port("ibp60s0/1")
    (found,) = ib_port(plant(tree), expected=("mlx5_0/1", "mlx5_1/1"))
    assert (found.code, found.status, found.blame) == ("ib_port_renamed", "warn", "config")


def test_a_stranger_does_not_stand_in_for_one_lost_port(plant: Plant) -> None:
    """Like E80: a ninth port that is up hides no expected one that is gone."""
    host = plant(hcas(2) | port("mlx5_9/1"))
    found = brief(list(ib_port(host, expected=("mlx5_0/1", "mlx5_1/1", "mlx5_2/1"))))
    assert found == [("mlx5_2/1", "ib_port_absent")]
