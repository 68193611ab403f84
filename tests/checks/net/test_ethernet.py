"""Named Ethernet interfaces and every bond are judged; what nobody named may be down."""

from __future__ import annotations

import pytest

from checks.catalog import load
from checks.runner import run_check
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
        (link("eth0", "down"), {"interfaces": ("eth0",)}, [("eth0", "ethernet_down")]),
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
