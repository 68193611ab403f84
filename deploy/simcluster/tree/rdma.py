"""InfiniBand adapters and network interfaces as /sys/class shows them."""

from __future__ import annotations

from deploy.simcluster.tree.board import Board, Identity, bdf

_COUNTERS = (
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "multicast_rcv_packets",
    "multicast_xmit_packets",
    "port_rcv_constraint_errors",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_discards",
    "port_xmit_wait",
    "symbol_error",
    "unicast_rcv_packets",
    "unicast_xmit_packets",
)
_HARDWARE_COUNTERS = (
    "duplicate_request",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "lifespan",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "req_cqe_error",
    "req_remote_access_errors",
    "resp_cqe_error",
    "rnr_nak_retry_err",
    "roce_adp_retrans",
    "rx_read_requests",
    "rx_write_requests",
)

UP = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)"}
DOWN = {"state": "1: DOWN", "phys_state": "2: Polling", "rate": "10 Gb/sec (4X SDR)"}
RATES = {100: "100 Gb/sec (4X EDR)", 200: "200 Gb/sec (4X HDR)", 400: UP["rate"], 800: "800 Gb/sec (4X XDR)"}
"""What sysfs writes for a port's rate in Gb/s."""


def port(hca: str) -> str:
    """Return where the only port of an adapter stands in the tree."""
    return f"sys/class/infiniband/{hca}/ports/1"


def port_files(hca: str, status: dict[str, str]) -> dict[str, str | bytes]:
    """Return the files of a port that is up, down or slow, and of the interface on it."""
    up = status["state"] == UP["state"]
    interface = f"sys/class/net/ib{hca.removeprefix('mlx5_')}"
    return {
        **{f"{port(hca)}/{name}": f"{value}\n" for name, value in status.items()},
        f"{interface}/operstate": "up\n" if up else "down\n",
        f"{interface}/carrier": "1\n" if up else "0\n",
    }


def files(board: Board, identity: Identity) -> dict[str, str | bytes]:
    """Return all adapters with their ports, and all interfaces."""
    tree: dict[str, str | bytes] = {}
    for index in range(len(board.hcas)):
        hca, guid = f"mlx5_{index}", identity.guid(index)
        about = {
            "node_type": "1: CA",
            "fw_ver": "28.43.2026",
            "hca_type": "MT4129",
            "board_id": "MT_0000000838",
            "node_guid": guid,
            "sys_image_guid": guid,
            "node_desc": f"{identity.name} {hca} (simulated)",
        }
        tree.update({f"sys/class/infiniband/{hca}/{name}": f"{value}\n" for name, value in about.items()})
        tree.update(_port(hca, index, guid))
        tree.update(_interface(f"ib{index}", identity, kind=32, speed=400_000, mtu=4092))
        tree.update(port_files(hca, UP))
    tree.update(_interface("eno1", identity, kind=1, speed=10_000, mtu=1500))
    tree.update(_interface("lo", identity, kind=772, speed=0, mtu=65536))
    return tree


def _port(hca: str, index: int, guid: str) -> dict[str, str | bytes]:
    about = {
        "link_layer": "InfiniBand",
        "lid": f"0x{0x40 + index:x}",
        "lid_mask_count": "0",
        "sm_lid": "0x1",
        "sm_sl": "0",
        "cap_mask": "0xa751e848",
        "gids/0": f"fe80:0000:0000:0000:{guid}",
        "pkeys/0": "0xffff",
        "counters/port_rcv_data": str(81_985_529_216 + index),
        "counters/port_xmit_data": str(81_985_529_900 + index),
        "counters/port_rcv_packets": str(315_872_114 + index),
        "counters/port_xmit_packets": str(315_872_200 + index),
        **dict.fromkeys((f"counters/{name}" for name in _COUNTERS), "0"),
        **dict.fromkeys((f"hw_counters/{name}" for name in _HARDWARE_COUNTERS), "0"),
    }
    return {f"{port(hca)}/{name}": f"{value}\n" for name, value in about.items()}


def _interface(name: str, identity: Identity, *, kind: int, speed: int, mtu: int) -> dict[str, str | bytes]:
    home = f"sys/class/net/{name}"
    about = {
        "type": kind,
        "speed": speed,
        "mtu": mtu,
        "operstate": "unknown" if name == "lo" else "up",
        "carrier": 1,
        "carrier_changes": 2,
        "flags": "0x1003",
        "address": "00:00:00:00:00:00" if name == "lo" else identity.address(name),
        **{f"statistics/{side}_{what}": 0 for side in ("rx", "tx") for what in ("errors", "dropped")},
    }
    return {f"{home}/{key}": f"{value}\n" for key, value in about.items()}


def links(board: Board) -> dict[str, str]:
    """Return the links from adapters and interfaces to their PCI devices."""
    found = {"sys/class/net/eno1/device": f"../../../bus/pci/devices/{bdf(board.management)}"}
    for index, bus in enumerate(board.hcas):
        for name in (f"infiniband/mlx5_{index}", f"net/ib{index}"):
            found[f"sys/class/{name}/device"] = f"../../../bus/pci/devices/{bdf(bus)}"
    return found
