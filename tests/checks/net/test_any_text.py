"""Whatever a driver writes into its files, no check of the network fails a node by it or ends."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from checks.catalog import load
from checks.net.bond import apart, read_bond, without_partner
from checks.runner import run_check
from tests.fakes import planter

PORT = "/sys/class/infiniband/mlx5_0/ports/1"
FILES = (
    *(f"{PORT}/{name}" for name in ("state", "phys_state", "rate", "link_layer", "lid", "sm_lid", "pkeys/0", "gids/0")),
    f"{PORT}/counters/link_downed",
    f"{PORT}/counters/symbol_error",
    f"{PORT}/hw_counters/packet_seq_err",
    f"{PORT}/gid_attrs/types/0",
    f"{PORT}/gid_attrs/ndevs/0",
    "/sys/class/infiniband/mlx5_0/node_type",
    "/sys/class/infiniband/mlx5_0/board_id",
    "/sys/class/infiniband/mlx5_0/fw_ver",
    "/sys/class/infiniband_verbs/uverbs0/ibdev",
    "/sys/class/net/eth0/operstate",
    "/sys/class/net/eth0/speed",
    "/sys/class/net/eth0/carrier_changes",
    "/sys/class/net/eth0/statistics/rx_errors",
    "/proc/net/bonding/bond0",
    "/proc/net/route",
)
WORDS = st.sampled_from(
    [
        "4: ACTIVE",
        "ACTIVE",
        "5: LinkUp",
        "400 Gb/sec",
        "InfiniBand",
        "Ethernet",
        "RoCE v2",
        "0x0",
        "0",
        "-1",
        "eth0",
        "",
    ]
)
TEXT = st.one_of(WORDS.map(str.encode), st.binary(max_size=200), st.text(max_size=80).map(str.encode))
SETTINGS: dict[str, dict[str, object]] = {
    "ib_port": {"layer": "InfiniBand", "min_gbps": 400},
    "ib_fabric": {"pkeys": ("0x8001",)},
    "roce": {"mtu": 4096, "gid": "ipv4", "gid_index": 0},
    "roce_qos": {"trust": "dscp", "pfc": "00010000", "ecn": (3,), "traffic_class": 106},
    "ipoib": {"interfaces": ("eth0",)},
    "ethernet": {"interfaces": ("eth0",), "mtu": 9000, "bond_members": 2},
}
CHECKS = (*SETTINGS, "ib_counters", "rdma_firmware")


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(FILES, TEXT)))
@settings(max_examples=40, deadline=None)
def test_no_text_fails_a_node_that_nothing_was_promised_of(tree: dict[str, bytes]) -> None:
    """Rule 4: without a count or a name there is nothing to miss, whatever is written."""
    with tempfile.TemporaryDirectory() as folder:
        host = planter(Path(folder))(tree)
        for name in CHECKS:
            found = run_check(load()[name], host, SETTINGS.get(name, {})).findings
            assert found
            assert not [f for f in found if f.status == "fail"], found
            assert all(len(f.message) <= 512 for f in found)


@given(st.text(max_size=2000))
@settings(max_examples=100, deadline=None)
def test_any_text_is_a_bond(text: str) -> None:
    bond = read_bond(text)
    assert set(without_partner(bond)) | set(apart(bond)) <= {m.name for m in bond.members}
