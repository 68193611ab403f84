"""RoCE is judged by what the profile names: packet size, addresses and lossless settings."""

from __future__ import annotations

from typing import Any

import pytest

from checks.catalog import load
from checks.net.roce import roce
from checks.net.roce_qos import roce_qos
from checks.runner import run_check
from tests.checks.net.test_ib_port import hcas, port
from tests.fakes import Plant

HCA, NET = "/sys/class/infiniband/mlx5_0", "/sys/class/net/eth0"
PORT = f"{HCA}/ports/1"
ZERO = "0000:0000:0000:0000:0000:0000:0000:0000"
LOCAL = "fe80:0000:0000:0000:9e63:c0ff:fe00:0001"
V4 = "0000:0000:0000:0000:0000:ffff:0a00:0005"
V6 = "2001:0db8:0000:0000:0000:0000:0000:0005"


def gids(*found: tuple[str, str]) -> dict[str, str | bytes]:
    tree: dict[str, str | bytes] = {}
    for index, (address, kind) in enumerate(found):
        tree[f"{PORT}/gids/{index}"] = f"{address}\n"
        if kind:
            tree[f"{PORT}/gid_attrs/types/{index}"] = f"{kind}\n"
    return tree


USUAL = gids((LOCAL, "IB/RoCE v1"), (LOCAL, "RoCE v2"), (V4, "IB/RoCE v1"), (V4, "RoCE v2"), (ZERO, ""))


def rail(mtu: int = 9000, **files: str) -> dict[str, str | bytes]:
    tree: dict[str, str | bytes] = {**port("mlx5_0/1", layer="Ethernet"), **USUAL}
    return tree | {f"{PORT}/gid_attrs/ndevs/0": "eth0\n", f"{NET}/mtu": f"{mtu}\n", **files}


def codes(plant: Plant, tree: dict[str, str | bytes], **options: Any) -> list[str]:
    return [f.code for f in roce(plant(tree), **options) if f.status != "ok"]


@pytest.mark.parametrize(
    ("mtu", "options", "expected"),
    [
        (9000, {"mtu": 4096}, []),
        (4192, {"mtu": 4096}, []),
        (4191, {"mtu": 4096}, ["roce_mtu_small"]),
        (1500, {"mtu": 1024}, []),
        (1500, {"mtu": 4096, "interface_mtu": 9000}, ["roce_mtu_small", "roce_interface_mtu"]),
        (9216, {"interface_mtu": 9000}, ["roce_interface_mtu"]),
        (1500, {"gid": "any"}, []),
    ],
)
def test_packet_sizes(plant: Plant, mtu: int, options: dict[str, Any], expected: list[str]) -> None:
    assert codes(plant, rail(mtu), **options) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"gid": "ipv4"}, []),
        ({"gid": "ipv6"}, ["roce_gid_missing"]),
        ({"gid": "any"}, []),
        ({"gid_index": 3}, []),
        ({"gid_index": 2}, ["roce_gid_index"]),
        ({"gid_index": 4}, ["roce_gid_index"]),
        ({"gid_index": 77}, ["roce_gid_index"]),
    ],
)
def test_addresses(plant: Plant, options: dict[str, Any], expected: list[str]) -> None:
    assert codes(plant, rail(), **options) == expected


def test_an_address_behind_a_few_empty_places_is_found(plant: Plant) -> None:
    assert codes(plant, rail() | gids(*[(ZERO, "")] * 5, (V6, "RoCE v2")), gid="ipv6") == []


def test_a_port_with_addresses_of_version_one_only(plant: Plant) -> None:
    tree = {k: v for k, v in rail().items() if "/gids/" not in k and "/types/" not in k} | gids((LOCAL, "IB/RoCE v1"))
    assert codes(plant, tree, gid="any") == ["roce_gid_missing"]


def test_a_port_whose_interface_is_not_told(plant: Plant) -> None:
    tree = {k: v for k, v in rail().items() if "ndevs" not in k}
    assert codes(plant, tree, mtu=4096) == ["roce_mtu_unseen"]
    host = plant({f"{HCA}/device/net/eth0/address": "x"})
    assert [f.code for f in roce(host, mtu=4096) if f.status != "ok"] == []


@pytest.mark.parametrize("name", ["roce", "roce_qos"])
def test_nothing_named_or_nothing_to_ask_is_skipped(plant: Plant, name: str) -> None:
    """E76: iWARP has neither; InfiniBand is another matter."""
    one: dict[str, object] = {"mtu": 4096} if name == "roce" else {"trust": "dscp"}
    assert [f.status for f in run_check(load()[name], plant(rail())).findings] == ["skipped"]
    host = plant({f"{HCA}/node_type": "4: RNIC\n"})
    assert [f.status for f in run_check(load()[name], host, one).findings] == ["skipped"]


def test_infiniband_is_no_roce(plant: Plant) -> None:
    assert [f.status for f in run_check(load()["roce"], plant(hcas(2)), {"mtu": 4096}).findings] == ["skipped"]


QOS = {
    f"{NET}/qos/trust": "dscp\n",
    f"{NET}/qos/pfc": "00010000\n",
    f"{NET}/ecn/roce_np/enable/3": "1\n",
    f"{NET}/ecn/roce_rp/enable/3": "1\n",
    f"{HCA}/tc/1/traffic_class": "Global tclass=106\n",
}
WANTED: dict[str, Any] = {"trust": "dscp", "pfc": "0,0,0,1,0,0,0,0", "ecn": (3,), "traffic_class": 106}


def settings(plant: Plant, **other: str) -> list[tuple[str, object]]:
    tree = rail() | QOS | {k: v for k, v in other.items()}
    found = roce_qos(plant({k: v for k, v in tree.items() if v != "gone"}), **WANTED)
    return [(f.code, f.evidence["setting"]) for f in found if f.status != "ok"]


@pytest.mark.parametrize(
    ("path", "text", "expected"),
    [
        (f"{NET}/qos/trust", "dscp\n", []),
        (f"{NET}/qos/trust", "Priority trust state: dscp\n", []),
        (f"{NET}/qos/trust", "pcp\n", [("roce_setting", "trust")]),
        (f"{NET}/qos/pfc", "0,0,0,1,0,0,0,0\n", []),
        (f"{NET}/qos/pfc", "priority 0 1 2 3 4 5 6 7\nenabled 0 0 0 1 0 0 0 0\n", []),
        (f"{NET}/qos/pfc", "00000000\n", [("roce_setting", "PFC")]),
        (f"{NET}/qos/pfc", "", [("roce_setting", "PFC")]),
        (f"{NET}/ecn/roce_np/enable/3", "0\n", [("roce_setting", "ECN roce_np 3")]),
        (f"{HCA}/tc/1/traffic_class", "", [("roce_setting", "traffic class")]),
        (f"{HCA}/tc/1/traffic_class", "Global tclass=96\n", [("roce_setting", "traffic class")]),
        (f"{NET}/qos/trust", "gone", [("roce_setting_unseen", "trust")]),
    ],
)
def test_lossless_settings(plant: Plant, path: str, text: str, expected: list[tuple[str, object]]) -> None:
    assert settings(plant, **{path: text}) == expected


def test_a_driver_without_these_files_is_unknown_and_nobody_is_blamed_for_it(plant: Plant) -> None:
    found = [f for f in roce_qos(plant(rail()), **WANTED) if f.status != "ok"]
    assert {(f.status, f.blame, f.code) for f in found} == {("unknown", "config", "roce_setting_unseen")}
    assert len(found) == 5


@pytest.mark.parametrize(("name", "options"), [("roce", {"gid": "v4"}), ("roce_qos", {"pfc": "0001"})])
def test_a_wrong_setting_is_our_own_trouble(plant: Plant, name: str, options: dict[str, object]) -> None:
    (found,) = run_check(load()[name], plant(rail()), options).findings
    assert (found.status, found.blame) == ("unknown", "self")
