"""Named Ethernet interfaces and every bond are judged; what nobody named may be down."""

from __future__ import annotations

import pytest

from checks import Host
from checks.catalog import load
from checks.net.bond import read_bond
from checks.runner import run_check
from tests.checks.net.test_adapters import boot, restarted
from tests.fakes import Plant

BOND = """Ethernet Channel Bonding Driver: v6.8.0

Bonding Mode: IEEE 802.3ad Dynamic link aggregation
MII Status: up
802.3ad info

Slave Interface: ens1f0np0
MII Status: up
Speed: 100000 Mbps

Slave Interface: ens1f1np1
MII Status: {second}
Speed: Unknown
"""


def link(name: str, state: str = "up", speed: str = "100000") -> dict[str, str | bytes]:
    return {f"/sys/class/net/{name}/operstate": f"{state}\n", f"/sys/class/net/{name}/speed": f"{speed}\n"}


@pytest.mark.parametrize(
    ("tree", "options", "expected"),
    [
        (link("eth0"), {"interfaces": ("eth0",), "min_mbps": 100_000}, [("eth0", "ok")]),
        (link("eth0", speed="25000"), {"interfaces": ("eth0",), "min_mbps": 100_000}, [("eth0", "ethernet_slow")]),
        (link("eth0", speed="-1"), {"interfaces": ("eth0",), "min_mbps": 100_000}, [("eth0", "ok")]),
        (link("eth0", speed="65535"), {"interfaces": ("eth0",), "min_mbps": 100_000}, [("eth0", "ok")]),
        (link("eth0", "down"), {"interfaces": ("eth0",)}, [("eth0", "ethernet_down")]),
        (link("eth0", "lowerlayerdown"), {"interfaces": ("eth0",)}, [("eth0", "ethernet_down")]),
        (link("eth0", ""), {"interfaces": ("eth0",)}, [("node", "check_error")]),
        (link("eth0", "-1"), {"interfaces": ("eth0",)}, [("node", "check_error")]),
        (link("eth0", "lowerlayerdown"), {"interfaces": ("eth0",)}, [("eth0", "ethernet_down")]),
        (link("eth1", "down"), {"interfaces": ("eth0",)}, [("eth0", "ethernet_absent")]),
        (link("eth1", "down"), {}, [("node", "not_applicable")]),
        (link("eth0"), {"interfaces": ("../../x",)}, [("node", "check_error")]),
        ({"/proc/net/bonding/bond0": BOND.format(second="up")}, {}, [("bond0", "ok")]),
        ({"/proc/net/bonding/bond0": BOND.format(second="down")}, {}, [("bond0", "bond_degraded")]),
    ],
)
def test_judges_what_is_named_and_every_bond(
    plant: Plant, tree: dict[str, str | bytes], options: dict[str, object], expected: list[tuple[str, str]]
) -> None:
    found = run_check(load()["ethernet"], plant(tree), options).findings
    assert [(f.target, f.code) for f in found] == expected
    assert "fail" not in {f.status for f in found}


LACP = "IEEE 802.3ad Dynamic link aggregation"
NOBODY, SWITCH = "00:00:00:00:00:00", "58:6a:b1:c7:02:fa"


def lacp(*members: tuple[str, str, str], active: str = SWITCH, mode: str = LACP) -> str:
    """The kernel's file for members of (status, aggregator, partner); an empty partner is one that is not told."""
    lines = [
        "Ethernet Channel Bonding Driver: v6.8.0\n",
        f"Bonding Mode: {mode}",
        "MII Status: up\n",
        "802.3ad info",
        "Active Aggregator Info:",
        f"\tAggregator ID: 1\n\tNumber of ports: 2\n\tPartner Mac Address: {active}\n" if active else "",
    ]
    for number, (status, group, partner) in enumerate(members):
        lines += ["", f"Slave Interface: eth{number}", f"MII Status: {status}", "Speed: 100000 Mbps"]
        lines += ["Permanent HW addr: 24:6e:96:8c:a6:06", f"Aggregator ID: {group}"]
        lines += ["details actor lacp pdu:", "    system mac address: 24:6e:96:8c:a6:06", "    port state: 61"]
        if partner:
            lines += ["details partner lacp pdu:", "    system priority: 32768", f"    system mac address: {partner}"]
    return "\n".join(lines) + "\n"


WELL = ("up", "1", SWITCH)


@pytest.mark.parametrize(
    ("text", "members", "expected"),
    [
        (lacp(WELL, WELL), 0, ["ok"]),
        (lacp(WELL, WELL), 2, ["ok"]),
        (lacp(WELL), 2, ["bond_degraded"]),
        (lacp(WELL, ("down", "2", NOBODY)), 0, ["bond_degraded"]),
        (lacp(WELL, ("going", "1", SWITCH)), 0, ["bond_degraded"]),
        (lacp(WELL, ("up", "2", NOBODY)), 0, ["bond_no_partner"]),
        (lacp(("up", "1", ""), ("up", "2", ""), active=NOBODY), 0, ["bond_no_partner"]),
        (lacp(WELL, ("up", "2", "58:6a:b1:c7:02:fb")), 0, ["bond_split"]),
        (lacp(("up", "1", ""), ("up", "1", ""), active=""), 0, ["ok"]),
        (lacp(("up", "", NOBODY), ("up", "", NOBODY), mode="fault-tolerance (active-backup)", active=""), 0, ["ok"]),
        ("", 0, ["ok"]),
        ("garbage\n" * 50, 0, ["ok"]),
    ],
)
def test_members_and_partners_of_a_bond(plant: Plant, text: str, members: int, expected: list[str]) -> None:
    """What the kernel tells root only accuses nobody when it is missing."""
    host = plant({"/proc/net/bonding/bond0": text})
    found = run_check(load()["ethernet"], host, {"bond_members": members}).findings
    assert [f.code for f in found] == expected


@pytest.mark.parametrize("word", ["Slave", "Port"])
def test_members_under_both_words_of_the_kernel(word: str) -> None:
    bond = read_bond(lacp(WELL, WELL).replace("Slave", word))
    assert [(m.name, m.up, m.partner) for m in bond.members] == [("eth0", True, SWITCH), ("eth1", True, SWITCH)]


@pytest.mark.parametrize(
    ("files", "options", "expected"),
    [
        ({"duplex": "full"}, {}, []),
        ({"duplex": "half"}, {}, ["ethernet_half_duplex"]),
        ({"duplex": "unknown"}, {}, []),
        ({"mtu": "1500"}, {"mtu": 9000}, ["ethernet_mtu"]),
        ({"mtu": "9000"}, {"mtu": 9000}, []),
        ({"mtu": "garbage"}, {"mtu": 9000}, []),
    ],
)
def test_settings_of_an_interface(
    plant: Plant, files: dict[str, str], options: dict[str, object], expected: list[str]
) -> None:
    host = plant(link("eth0") | {f"/sys/class/net/eth0/{k}": f"{v}\n" for k, v in files.items()})
    found = run_check(load()["ethernet"], host, {"interfaces": ("eth0",), **options}).findings
    assert [f.code for f in found if f.status != "ok"] == expected


class Counted:
    """A host with a named interface, or a bond of it, whose counters and clock a test moves."""

    def __init__(self, plant: Plant, *, bonded: bool = False, **counters: int) -> None:
        tree: dict[str, str | bytes] = {**link("eth0"), **boot()}
        if bonded:
            tree["/proc/net/bonding/bond0"] = lacp(WELL)
        self.host: Host = plant(tree)
        self.options: dict[str, object] = {} if bonded else {"interfaces": ("eth0",)}
        self.now = 0.0
        self.host.clock = lambda: self.now
        for name, value in counters.items():
            self.put(name, value)

    def put(self, name: str, value: int) -> None:
        place = name if name.startswith("carrier") else f"statistics/{name}"
        path = self.host.path(f"/sys/class/net/eth0/{place}")
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{value}\n")

    def bad(self, seconds: float = 60.0) -> list[tuple[str, object]]:
        self.now += seconds
        found = run_check(load()["ethernet"], self.host, self.options).findings
        return [(f.code, f.evidence["growth"]) for f in found if f.status != "ok"]


@pytest.mark.parametrize("bonded", [False, True])
def test_losses_of_carrier_within_an_hour(plant: Plant, bonded: bool) -> None:
    """E78: what stood there is history, and it clears by itself."""
    node = Counted(plant, bonded=bonded, carrier_changes=41)
    assert node.bad() == []
    node.put("carrier_changes", 47)
    assert node.bad() == []
    node.put("carrier_changes", 49)
    assert node.bad() == [("ethernet_flapping", 4)]
    restarted(node.host)
    assert node.bad() == [("ethernet_flapping", 4)]
    assert node.bad(3600.0) == []


@pytest.mark.parametrize(
    ("name", "growth", "expected"),
    [
        ("rx_crc_errors", 120, []),
        ("rx_crc_errors", 121, [("ethernet_errors", 121)]),
        ("rx_errors", 601, [("ethernet_errors", 601)]),
        ("tx_errors", 601, [("ethernet_errors", 601)]),
        ("rx_dropped", 10_000_000, []),
    ],
)
def test_errors_by_growth(plant: Plant, name: str, growth: int, expected: list[tuple[str, object]]) -> None:
    node = Counted(plant)
    node.put(name, 5_000_000)
    assert node.bad() == []
    node.put(name, 5_000_000 + growth)
    assert node.bad() == expected


@pytest.mark.parametrize("speed", ["-1", "0", "65535", "4294967295"])
def test_a_speed_that_is_not_told_is_shown_as_none(plant: Plant, speed: str) -> None:
    """Like E76: older drivers write "unknown" as the largest number that they have room for."""
    host = plant(link("eth0", speed=speed))
    (found,) = run_check(load()["ethernet"], host, {"interfaces": ("eth0",), "min_mbps": 100_000}).findings
    assert (found.status, found.message, found.evidence["speed"]) == ("ok", "up", 0)
