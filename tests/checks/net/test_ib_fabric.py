"""What a subnet manager gives a port is judged on InfiniBand only, and changes of it are told for a while."""

from __future__ import annotations

import pytest

from checks.catalog import load
from checks.net.ib_fabric import STICKY, ib_fabric
from checks.runner import run_check
from tests.checks.net.test_adapters import boot, restarted
from tests.checks.net.test_ib_port import POLLING, Clock, hcas, port
from tests.fakes import Plant

PORT = "/sys/class/infiniband/{}/ports/1"


def addresses(hca: str = "mlx5_0", lid: str = "0x40", sm_lid: str = "0x1") -> dict[str, str | bytes]:
    base = PORT.format(hca)
    return {f"{base}/lid": f"{lid}\n", f"{base}/sm_lid": f"{sm_lid}\n"}


def keys(*values: str, hca: str = "mlx5_0") -> dict[str, str | bytes]:
    return {f"{PORT.format(hca)}/pkeys/{index}": f"{value}\n" for index, value in enumerate(values)}


@pytest.mark.parametrize(
    ("lid", "sm_lid", "expected"),
    [
        ("0x40", "0x1", []),
        ("0x0", "0x1", ["ib_no_lid"]),
        ("0xffff", "0x1", ["ib_no_lid"]),
        ("0x40", "0x0", ["ib_no_sm_lid"]),
        ("0x0", "0x0", ["ib_no_lid", "ib_no_sm_lid"]),
        ("garbage", "", []),
        ("0x123456", "0x1", []),
    ],
)
def test_addresses_of_a_port_that_is_up(plant: Plant, lid: str, sm_lid: str, expected: list[str]) -> None:
    host = plant(hcas(1) | addresses(lid=lid, sm_lid=sm_lid))
    assert [f.code for f in ib_fabric(host) if f.status != "ok"] == expected


@pytest.mark.parametrize(
    "tree",
    [
        port("mlx5_0/1", layer="Ethernet") | addresses(lid="0x0", sm_lid="0x0"),
        port("mlx5_0/1", POLLING) | addresses(lid="0x0", sm_lid="0x0"),
        port("rdmap0s1/1", layer="Unknown"),
        port("i40iw0/1") | addresses("i40iw0", "0x1", "0x0"),
        port("rocep1/1") | addresses("rocep1", "0x1", "0x0") | {"/sys/class/infiniband/rocep1/node_type": "4: RNIC\n"},
        {},
    ],
)
def test_what_has_no_subnet_manager_is_not_asked(plant: Plant, tree: dict[str, str | bytes]) -> None:
    """E76, E82: RoCE, EFA, and iWARP that calls its link InfiniBand."""
    assert [f.status for f in run_check(load()["ib_fabric"], plant(tree)).findings] == ["skipped"]


def test_an_address_without_these_files_is_no_fault(plant: Plant) -> None:
    assert [f.status for f in ib_fabric(plant(hcas(2)))] == ["ok"]


def test_a_new_address_is_told_for_a_while(plant: Plant) -> None:
    """Over a restart of the agent, too; after a boot it is nothing."""
    host = plant(hcas(1) | addresses() | boot())
    host.clock = clock = Clock()
    assert [f.status for f in ib_fabric(host)] == ["ok"]
    restarted(host)
    host.path(f"{PORT.format('mlx5_0')}/lid").write_text("0x55\n")
    (found, _) = ib_fabric(host)
    assert (found.code, found.blame, found.evidence["before"], found.evidence["lid"]) == (
        "ib_lid_changed",
        "fabric",
        0x40,
        0x55,
    )
    clock.seconds += STICKY
    assert [f.status for f in ib_fabric(host)] == ["ok"]
    host.path("/proc/sys/kernel/random/boot_id").write_text("b2\n")
    host.path(f"{PORT.format('mlx5_0')}/lid").write_text("0x60\n")
    assert [f.status for f in ib_fabric(host)] == ["ok"]


@pytest.mark.parametrize(
    ("table", "wanted", "missing"),
    [
        (("0xffff", "0x8001", "0x0000"), ("0x8001",), []),
        (("0xffff", "0x8001"), ("0x0001",), []),
        (("0x7fff", "0x0001"), ("0x8001",), ["0x8001"]),
        (("0xffff",), ("0x8001", "0x8002"), ["0x8001", "0x8002"]),
        (("0x0000", "0x0000", "0x8001"), ("0x8001",), []),
        (("garbage", "0x8001"), ("0x8001",), []),
        (("0xffff",), (), []),
    ],
)
def test_partition_keys(plant: Plant, table: tuple[str, ...], wanted: tuple[str, ...], missing: list[str]) -> None:
    host = plant(hcas(1) | addresses() | keys(*table))
    found = [f for f in ib_fabric(host, pkeys=wanted) if f.code == "ib_pkey_missing"]
    assert [f.evidence["pkey"] for f in found] == missing


@pytest.mark.parametrize("wanted", ["0x0", "x", "0x18001", "-1"])
def test_a_wrong_key_is_our_own_trouble(plant: Plant, wanted: str) -> None:
    host = plant(hcas(1) | addresses())
    (found,) = run_check(load()["ib_fabric"], host, {"pkeys": (wanted,)}).findings
    assert (found.status, found.blame) == ("unknown", "self")


def test_a_table_that_cannot_be_read_accuses_nobody(plant: Plant) -> None:
    found = run_check(load()["ib_fabric"], plant(hcas(1) | addresses()), {"pkeys": ("0x8001",)}).findings
    assert [(f.status, f.blame) for f in found] == [("unknown", "self")]
