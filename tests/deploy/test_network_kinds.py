"""Every kind of adapter that can be simulated is healthy in the eyes of the checks, and each fault of one is found."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from checks import Host
from checks.catalog import load
from checks.runner import run_check
from deploy.simcluster.host import SimHost, UnknownFault
from deploy.simcluster.tree import PROFILES

CHECKS = ("ib_port", "ib_counters", "ib_fabric", "rdma_firmware", "roce", "roce_qos", "ipoib", "ethernet")
INFINIBAND: dict[str, dict[str, object]] = {
    "ib_port": {"count": 8, "min_gbps": 400, "layer": "InfiniBand"},
    "ipoib": {"interfaces": ("ib0",), "mtu": 4092, "mode": "datagram"},
    "ib_fabric": {"pkeys": ("0xffff",)},
    "ethernet": {"interfaces": ("eno1",), "min_mbps": 10_000, "mtu": 1500, "bond_members": 2},
}
ROCE: dict[str, dict[str, object]] = {
    "ib_port": {"count": 8, "min_gbps": 400, "layer": "Ethernet"},
    "roce": {"mtu": 4096, "interface_mtu": 9000, "gid": "ipv4", "gid_index": 3},
}
ANY: dict[str, dict[str, object]] = {"ib_port": {"count": 8}, "ethernet": {"interfaces": ("eno1",)}}


class Looking:
    """A simulated host that is looked at as an agent would, a minute between two looks."""

    def __init__(self, folder: Path, cache: Path, board: str) -> None:
        self.sim = SimHost(folder, "n1", profile=board, cache=cache).create()
        self.now = 1000.0
        self.host = Host(root=self.sim.sysroot, simulated=True)
        self.host.clock = lambda: self.now

    def look(self, settings: Mapping[str, dict[str, object]]) -> set[tuple[str, str]]:
        self.now += 60.0
        known, bad = load(), set()
        for name in CHECKS:
            found = run_check(known[name], self.host, settings.get(name, {})).findings
            bad |= {(f.target, f.code) for f in found if f.status not in ("ok", "skipped")}
        return bad


@pytest.mark.parametrize("board", sorted(PROFILES))
def test_a_healthy_node_of_any_kind_is_clean(tmp_path: Path, library: Path, cache: Path, board: str) -> None:
    """E71, E73, E76, E79, E81, E82: spare ports, virtual functions, soft and administrators' adapters, every maker."""
    node = Looking(tmp_path / "n1", cache, board)
    settings = {"hgx-h100": INFINIBAND, "hgx-h100-beside": INFINIBAND, "hgx-h100-roce": ROCE}.get(board, ANY)
    assert node.look(settings) == node.look(settings) == set()
    node.sim.inject("ib_down")
    first = node.sim.board.hca()
    assert (f"{first}/1", "ib_port_down") in node.look(settings)
    node.sim.heal()
    assert {code for _, code in node.look(settings)} <= {"ib_port_came_back"}
    node.sim.inject("hca_unprobed")
    worse = node.look(settings)
    assert ("node", "ib_port_count_low") in worse
    node.sim.heal()
    assert {code for _, code in node.look(settings)} <= {"ib_port_came_back"}
    assert node.sim.sysroot.joinpath(f"sys/class/infiniband/{first}/ports/1/state").exists()


FAULTS: list[tuple[str, dict[str, str | int], set[tuple[str, str]]]] = [
    ("ib_slow", {"hca": "mlx5_3"}, {("mlx5_3/1", "ib_port_slow")}),
    ("ib_training", {"hca": "mlx5_3"}, {("mlx5_3/1", "ib_port_training")}),
    ("ib_unmanaged", {"hca": "mlx5_3"}, {("mlx5_3/1", "ib_port_init")}),
    ("ib_manager_lost", {}, {(f"mlx5_{n}/1", "ib_no_sm_lid") for n in range(8)}),
    ("ib_lid", {"hca": "mlx5_3"}, {("mlx5_3/1", "ib_no_lid")}),
    ("ib_lid", {"hca": "mlx5_3", "lid": 77}, {("mlx5_3/1", "ib_lid_changed")}),
    ("hca_flap", {"hca": "mlx5_3", "times": 12}, {("mlx5_3/1", "ib_port_flapping"), ("mlx5_3/1", "rdma_errors")}),
    ("hca_errors", {"hca": "mlx5_3"}, {("mlx5_3/1", "rdma_errors")}),
    ("hca_errors", {"hca": "mlx5_3", "counter": "packet_seq_err"}, {("mlx5_3/1", "rdma_errors")}),
    ("hca_lost", {"hca": "mlx5_3"}, {("mlx5_3", "ib_adapter_lost")}),
    ("hca_unprobed", {"hca": "mlx5_3"}, {("node", "ib_port_count_low"), ("0000:5e:00.0", "ib_adapter_dead")}),
    ("hca_mute", {"hca": "mlx5_3"}, {("node", "ib_port_count_low"), ("0000:5e:00.0", "ib_adapter_no_rdma")}),
    ("hca_no_verbs", {"hca": "mlx5_3"}, {("mlx5_3", "ib_no_verbs")}),
    ("hca_no_file", {"hca": "mlx5_3"}, {("mlx5_3", "ib_no_device_file")}),
    ("hca_firmware", {"hca": "mlx5_3"}, {("MT_0000000838", "rdma_firmware_differs")}),
    ("interface_mtu", {}, {("eno1", "ethernet_mtu")}),
    ("interface_mtu", {"interface": "ib0"}, {("ib0", "ipoib_setting")}),
    ("ethernet_down", {}, {("eno1", "ethernet_down")}),
    ("ethernet_flap", {}, {("eno1", "ethernet_flapping")}),
    ("ethernet_errors", {}, {("eno1", "ethernet_errors")}),
    ("bond_degraded", {}, {("bond0", "bond_degraded")}),
    ("bond_alone", {}, {("bond0", "bond_no_partner")}),
]


def test_each_fault_is_found_and_ends(tmp_path: Path, cache: Path) -> None:
    """One host for all: a reboot between two makes what is remembered of the former void."""
    node = Looking(tmp_path / "n1", cache, "hgx-h100-beside")
    for name, target, expected in FAULTS:
        assert node.look(INFINIBAND) == set(), f"before {name}"
        node.sim.inject(name, **target)
        assert node.look(INFINIBAND) == expected, name
        node.sim.heal()
        node.sim.reboot()


def test_a_lost_address_is_found_on_roce_only(tmp_path: Path, cache: Path) -> None:
    node = Looking(tmp_path / "n1", cache, "hgx-h100-roce")
    node.sim.inject("roce_no_address", hca="mlx5_2")
    assert node.look(ROCE) == {("mlx5_2/1", "roce_gid_missing"), ("mlx5_2/1", "roce_gid_index")}
    node.sim.heal()
    node.sim.inject("interface_mtu", interface="rail2", mtu=1500)
    assert node.look(ROCE) == {("mlx5_2/1", "roce_mtu_small"), ("mlx5_2/1", "roce_interface_mtu")}


@pytest.mark.parametrize(
    ("fault", "target"),
    [
        ("roce_no_address", {}),
        ("bond_degraded", {}),
        ("hca_errors", {"counter": "rx_drops"}),
        ("ethernet_down", {"interface": "../x"}),
        ("hca_no_verbs", {"hca": "mlx5_8"}),
        ("hca_lost", {"hca": "rdmap0s0"}),
    ],
)
def test_a_fault_that_does_not_fit_is_refused(tmp_path: Path, cache: Path, fault: str, target: dict[str, str]) -> None:
    sim = SimHost(tmp_path / "n1", "n1", cache=cache).create()
    with pytest.raises(UnknownFault, match="does not fit"):
        sim.inject(fault, **target)
