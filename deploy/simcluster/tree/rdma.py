"""RDMA adapters and network interfaces as /sys/class shows them."""

from __future__ import annotations

from deploy.simcluster.tree.board import Board, Identity, bdf
from deploy.simcluster.tree.makers import CLASSIC, Maker

UP = {"state": "4: ACTIVE", "phys_state": "5: LinkUp"}
DOWN = {"state": "1: DOWN", "phys_state": "2: Polling", "rate": "10 Gb/sec (4X SDR)"}
RATES = {
    100: "100 Gb/sec (4X EDR)",
    200: "200 Gb/sec (4X HDR)",
    400: "400 Gb/sec (4X NDR)",
    800: "800 Gb/sec (4X XDR)",
}
"""What sysfs writes for a port's rate in Gb/s."""
NO_ADDRESS = "0000:0000:0000:0000:0000:0000:0000:0000"
BOND = "proc/net/bonding/bond0"
MEMBERS = ("ens2f0np0", "ens2f1np1")
Tree = dict[str, str | bytes]


def port(hca: str) -> str:
    """Return where the only port of an adapter stands in the tree."""
    return f"sys/class/infiniband/{hca}/ports/1"


def interface(board: Board, hca: str) -> str:
    """Return the name of the network interface on an adapter, empty where there is none."""
    return board.maker.interface.format(board.hca_index(hca))


def port_files(board: Board, hca: str, status: dict[str, str]) -> Tree:
    """Return the files of a port that is up, down or slow, and of the interface on it."""
    name = interface(board, hca)
    status = {"rate": board.maker.rate, **status}
    up = status["state"] == UP["state"]
    home = f"sys/class/net/{name}"
    return {
        **{f"{port(hca)}/{key}": f"{value}\n" for key, value in status.items()},
        **({f"{home}/operstate": "up\n" if up else "down\n", f"{home}/carrier": f"{int(up)}\n"} if name else {}),
    }


def files(board: Board, identity: Identity) -> Tree:
    """Return all adapters with their ports, and all interfaces."""
    tree: Tree = {}
    maker = board.maker
    for index in range(len(board.hcas)):
        hca, guid = maker.name(index), identity.guid(index)
        tree.update(_adapter(maker, hca, guid, identity))
        tree.update(_port(maker, hca, index, guid))
        if name := interface(board, hca):
            kind, mtu = (32, 4092) if maker.layer == "InfiniBand" else (1, 9000)
            tree.update(_interface(name, identity, kind=kind, speed=int(maker.rate.split()[0]) * 1000, mtu=mtu))
            if maker.layer == "InfiniBand":
                tree[f"sys/class/net/{name}/mode"] = "datagram\n"
        tree.update(port_files(board, hca, UP))
        tree[f"sys/class/infiniband_verbs/uverbs{index}/ibdev"] = f"{hca}\n"
    tree.update(_interface("eno1", identity, kind=1, speed=10_000, mtu=1500))
    tree.update(_interface("lo", identity, kind=772, speed=0, mtu=65536))
    return {**tree, **(_beside(identity) if board.beside else {})}


def _adapter(maker: Maker, hca: str, guid: str, identity: Identity) -> Tree:
    about = {
        "node_type": maker.node_type,
        "node_guid": guid,
        "sys_image_guid": guid,
        "node_desc": f"{identity.name} {hca} (simulated)",
    }
    if maker.told:
        about |= {n: text for n, text in zip(("fw_ver", "hca_type", "board_id"), maker.told, strict=True) if text}
    return {f"sys/class/infiniband/{hca}/{name}": f"{value}\n" for name, value in about.items()}


def _port(maker: Maker, hca: str, index: int, guid: str) -> Tree:
    infiniband = maker.layer == "InfiniBand"
    about = {
        "link_layer": maker.layer,
        "lid": f"0x{0x40 + index:x}" if infiniband else "0x0",
        "lid_mask_count": "0",
        "sm_lid": "0x1" if infiniband else "0x0",
        "sm_sl": "0",
        "cap_mask": "0xa751e848",
        "pkeys/0": "0xffff",
        **dict.fromkeys((f"hw_counters/{name}" for name in maker.hardware), "0"),
        **(_classic(maker, index) if maker.classic else {}),
        **_addresses(maker, index, guid),
    }
    return {f"{port(hca)}/{name}": f"{value}\n" for name, value in about.items()}


def _classic(maker: Maker, index: int) -> dict[str, str]:
    traffic = {
        "port_rcv_data": str(81_985_529_216 + index),
        "port_xmit_data": str(81_985_529_900 + index),
        "port_rcv_packets": str(315_872_114 + index),
        "port_xmit_packets": str(315_872_200 + index),
        **dict.fromkeys(CLASSIC, "0"),
    }
    return {f"counters/{name}": "N/A (no PMA)" if maker.mute else value for name, value in traffic.items()}


def _addresses(maker: Maker, index: int, guid: str) -> dict[str, str]:
    """Return the GID table: of RoCE one of each version for the link's own and for its IPv4 address."""
    own = f"fe80:0000:0000:0000:{guid}"
    if maker.layer != "Ethernet" or "RNIC" in maker.node_type:
        return {"gids/0": own}
    four = f"0000:0000:0000:0000:0000:ffff:0a00:{index + 1:04x}"
    found: dict[str, str] = {}
    for at, (address, kind) in enumerate((a, k) for a in (own, four) for k in ("IB/RoCE v1", "RoCE v2")):
        found |= {
            f"gids/{at}": address,
            f"gid_attrs/types/{at}": kind,
            f"gid_attrs/ndevs/{at}": maker.interface.format(index),
        }
    return {**found, "gids/4": NO_ADDRESS}


def _interface(name: str, identity: Identity, *, kind: int, speed: int, mtu: int) -> Tree:
    home = f"sys/class/net/{name}"
    counted = ("errors", "dropped", "crc_errors", "missed_errors")
    about = {
        "type": kind,
        "speed": speed,
        "duplex": "full",
        "mtu": mtu,
        "operstate": "unknown" if name == "lo" else "up",
        "carrier": 1,
        "carrier_changes": 2,
        "flags": "0x1003",
        "address": "00:00:00:00:00:00" if name == "lo" else identity.address(name),
        **{f"statistics/rx_{what}": 0 for what in counted},
        **{f"statistics/tx_{what}": 0 for what in counted[:2]},
    }
    return {f"{home}/{key}": f"{value}\n" for key, value in about.items()}


def _beside(identity: Identity) -> Tree:
    """Return devices that are nobody's rail, each with a port that is down, and a bond of two interfaces."""
    tree: Tree = {BOND: bond()}
    for name in MEMBERS:
        tree.update(_interface(name, identity, kind=1, speed=100_000, mtu=9000))
    for hca, layer in (("mlx5_vf0", "InfiniBand"), ("rxe0", "Ethernet"), ("mlx5_admin", "Ethernet")):
        status = {**DOWN, "link_layer": layer, "lid": "0x0", "sm_lid": "0x0"}
        tree.update({f"{port(hca)}/{key}": f"{value}\n" for key, value in status.items()})
    tree["sys/class/infiniband/rxe0/parent"] = "eno1\n"
    tree["sys/class/infiniband/mlx5_vf0/device/physfn/vendor"] = "0x15b3\n"
    spare = {**DOWN, "phys_state": "3: Disabled", "link_layer": "InfiniBand"}
    tree.update({f"sys/class/infiniband/mlx5_0/ports/2/{key}": f"{value}\n" for key, value in spare.items()})
    tree["proc/net/route"] = (
        "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\n"
        "eno1\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\n"
    )
    return tree


def bond(*, down: str = "", alone: str = "") -> str:
    """Return the kernel's file about the bond, with one member down or without a partner."""
    nobody, switch = "00:00:00:00:00:00", "58:6a:b1:c7:02:fa"
    text = (
        "Ethernet Channel Bonding Driver: v6.8.0-simulated\n\nBonding Mode: IEEE 802.3ad Dynamic link aggregation\n"
        "MII Status: up\n\n802.3ad info\nLACP active: on\nActive Aggregator Info:\n\tAggregator ID: 1\n"
        f"\tPartner Mac Address: {switch}\n"
    )
    for name in MEMBERS:
        text += (
            f"\nSlave Interface: {name}\nMII Status: {'down' if name == down else 'up'}\nSpeed: 100000 Mbps\n"
            f"Duplex: full\nAggregator ID: {2 if name == alone else 1}\ndetails partner lacp pdu:\n"
            f"    system priority: 32768\n    system mac address: {nobody if name == alone else switch}\n"
        )
    return text


def links(board: Board) -> dict[str, str]:
    """Return the links from adapters and interfaces to their PCI devices."""
    found = {"sys/class/net/eno1/device": f"../../../bus/pci/devices/{bdf(board.management)}"}
    if board.beside:
        found["sys/class/infiniband/mlx5_admin/device"] = found["sys/class/net/eno1/device"]
    for index, bus in enumerate(board.hcas):
        hca = board.maker.name(index)
        for name in (f"infiniband/{hca}", f"net/{interface(board, hca)}" if interface(board, hca) else ""):
            if name:
                found[f"sys/class/{name}/device"] = f"../../../bus/pci/devices/{bdf(bus)}"
    return found
