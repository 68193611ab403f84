"""Each kind of adapter is taken for what it is: no software, spare or managing device is missed, no dead one unseen."""

from __future__ import annotations

import pytest

from checks.catalog import load
from checks.host import _KEPT, Host
from checks.net.adapters import adapters, every_adapter
from checks.net.ib_counters import ib_counters
from checks.net.ib_port import ib_port
from checks.net.ports import ports
from checks.runner import run_check
from tests.checks.net.test_ib_port import DISABLED, POLLING, UP, Clock, brief, hcas, port, rewrite
from tests.checks.net.test_ports import b200
from tests.fakes import Plant

DEVICES = "/sys/bus/pci/devices"
ONES, CONFIG = b"\xff" * 64, bytes.fromhex("b3152110") + bytes(60)


def on_pci(bdf: str, hca: str = "", *, config: bytes = CONFIG, driver: str = "mlx5_core") -> dict[str, str | bytes]:
    """A ConnectX-7 on the bus, and the link of its RDMA device."""
    base = f"{DEVICES}/{bdf}"
    tree: dict[str, str | bytes] = {
        f"{base}/vendor": "0x15b3\n",
        f"{base}/device": "0x1021\n",
        f"{base}/class": "0x020700\n",
        f"{base}/config": config,
    }
    if driver:
        tree[f"{base}/driver"] = f"-> ../../../../bus/pci/drivers/{driver}"
    if hca:
        tree[f"/sys/class/infiniband/{hca}/device"] = f"-> ../../../bus/pci/devices/{bdf}"
    return tree


def boot(name: str = "b1") -> dict[str, str | bytes]:
    return {"/proc/sys/kernel/random/boot_id": f"{name}\n"}


def restarted(host: Host) -> None:
    """Another agent's process, to which only what was asked to be kept is given."""
    host.memory, host.keeps = dict(host.keeps), {}
    for key in [k for k in _KEPT if k[0] == host.root]:
        del _KEPT[key]


@pytest.mark.parametrize(
    ("name", "status", "layer"),
    [
        ("mlx4_0/1", ("4: ACTIVE", "5: LinkUp", "40 Gb/sec (4X QDR)"), "InfiniBand"),
        ("i40iw0/1", ("4: ACTIVE", "5: LinkUp", "10 Gb/sec (4X)"), "InfiniBand"),
        ("irdma0/1", ("4: ACTIVE", "5: LinkUp", "100 Gb/sec (4X EDR)"), "Ethernet"),
        ("hfi1_0/1", ("4: ACTIVE", "5: LinkUp", "100 Gb/sec (4X EDR)"), "InfiniBand"),
        ("bnxt_re0/1", ("4: ACTIVE", "5: LinkUp", "200 Gb/sec (4X HDR)"), "Ethernet"),
        ("bnxt_re_bond0/1", ("4: ACTIVE", "5: LinkUp", "200 Gb/sec (4X HDR)"), "Ethernet"),
        ("mlx5_bond_0/1", ("4: ACTIVE", "5: LinkUp", "200 Gb/sec (2X NDR)"), "Ethernet"),
        ("rdmap16s27/1", ("4: ACTIVE", "5: LinkUp", "100 Gb/sec (4X EDR)"), "Unknown"),
        ("roceP2p1s0/1", ("4: ACTIVE", "5: LinkUp", "800 Gb/sec (4X XDR)"), "Ethernet"),
    ],
)
def test_a_healthy_port_of_any_maker_is_clean(
    plant: Plant, name: str, status: tuple[str, str, str], layer: str
) -> None:
    """E76, E82."""
    host = plant(port(name, status, layer=layer))
    assert list(ib_port(host)) == []
    assert list(ib_port(host, count=1)) == []
    assert [f.status for f in ib_counters(host)] == ["ok"]


@pytest.mark.parametrize(
    "extra",
    [
        {"/sys/class/infiniband/roce_soft/parent": "eth0\n"},
        {"/sys/class/infiniband/roce_soft": "-> ../../devices/virtual/infiniband/roce_soft"},
    ],
)
def test_a_software_adapter_under_any_name_is_no_adapter(plant: Plant, extra: dict[str, str]) -> None:
    """Like E79: soft RoCE can be given any name."""
    real = "/sys/devices/virtual/infiniband/roce_soft"
    files = {k.replace("/sys/class/infiniband/soft", real): v for k, v in port("soft/1", POLLING).items()}
    if "/sys/class/infiniband/roce_soft/parent" in extra:
        files = port("roce_soft/1", POLLING)
    host = plant(hcas(1) | files | extra)
    assert len(every_adapter(host)) == 2
    assert [a.name for a in adapters(host)] == ["mlx5_0"]
    assert list(ib_port(host, count=1)) == []


def test_an_adapter_that_comes_back_under_its_name_is_looked_at_anew(plant: Plant) -> None:
    host = plant(hcas(1) | on_pci("0000:1a:00.0", "mlx5_0") | on_pci("0000:3c:00.0"))
    assert [a.bdf for a in every_adapter(host)] == ["0000:1a:00.0"]
    folder = host.path("/sys/class/infiniband/mlx5_0")
    folder.rename(folder.with_name("old"))
    again = plant({})
    path = again.path("/sys/class/infiniband/mlx5_0")
    (path / "ports").mkdir(parents=True)
    (path / "device").symlink_to("../../../bus/pci/devices/0000:3c:00.0")
    assert {a.name: a.bdf for a in every_adapter(host)}["mlx5_0"] == "0000:3c:00.0"


def test_an_adapter_that_fell_off_the_bus_is_named_once(plant: Plant) -> None:
    """Like E79: sysfs still shows its port as ACTIVE, from memory."""
    tree = hcas(2) | on_pci("0000:1a:00.0", "mlx5_0") | on_pci("0000:3c:00.0", "mlx5_1", config=ONES)
    found = list(ib_port(plant(tree), count=2))
    assert brief(found) == [("mlx5_1", "ib_adapter_lost")]
    assert (found[0].status, found[0].blame, found[0].evidence["pci"]) == ("fail", "node", "0000:3c:00.0")


def test_an_adapter_whose_entry_on_the_bus_was_not_kept_is_not_lost(plant: Plant) -> None:
    """Like E79: of a tree kept in part the bus shows a disk alone, and the adapter's own folder is there."""
    real = "/sys/devices/pci0000:3b/0000:3c:00.0"
    disk = {f"{DEVICES}/0000:01:00.0/{k}": v for k, v in (("vendor", "0x144d"), ("device", "0xa80a"))}
    link = {f"{real}/vendor": "0x15b3\n", "/sys/class/infiniband/mlx5_0/device": f"-> ../../../..{real}"}
    host = plant({**hcas(1), **disk, f"{DEVICES}/0000:01:00.0/class": "0x010802\n", **link})
    assert [a.bdf for a in adapters(host)] == ["0000:3c:00.0"]
    assert list(ib_port(host, count=1)) == []


def test_a_sub_function_is_left_out_like_a_virtual_one(plant: Plant) -> None:
    """Like E81: what the driver made of an adapter for a container is down until that one starts."""
    real = "/sys/devices/pci0000:3b/0000:3c:00.0/mlx5_core.sf.4"
    link = {f"{real}/sfnum": "88\n", "/sys/class/infiniband/mlx5_1/device": f"-> ../../../..{real}"}
    host = plant({**hcas(2, mlx5_1=POLLING), **link})
    assert list(ib_port(host, count=1)) == []
    assert [f.code for f in ib_port(host, count=2)] == ["ib_port_count_low"]


def test_a_spare_adapter_off_the_bus_takes_no_node_out(plant: Plant) -> None:
    tree = hcas(2, mlx5_1=DISABLED) | on_pci("0000:1a:00.0", "mlx5_0") | on_pci("0000:3c:00.0", "mlx5_1", config=ONES)
    (found,) = ib_port(plant(tree), count=1)
    assert (found.code, found.status) == ("ib_adapter_lost", "warn")


def test_one_that_was_up_and_fell_off_the_bus_needs_no_profile(plant: Plant) -> None:
    host = plant(hcas(1) | on_pci("0000:1a:00.0", "mlx5_0"))
    assert list(ib_port(host)) == []
    host.path(f"{DEVICES}/0000:1a:00.0/config").write_bytes(ONES)
    assert [(f.code, f.status) for f in ib_port(host)] == [("ib_adapter_lost", "fail")]


def test_an_adapter_with_driver_and_without_rdma_device_is_named_where_ports_are_missing(plant: Plant) -> None:
    """E79: the driver's RDMA half did not start."""
    tree = hcas(1) | on_pci("0000:1a:00.0", "mlx5_0") | on_pci("0000:3c:00.0")
    assert brief(list(ib_port(plant(tree), count=2))) == [
        ("node", "ib_port_count_low"),
        ("0000:3c:00.0", "ib_adapter_no_rdma"),
    ]
    assert list(ib_port(plant({}), count=1)) == []


def test_the_second_half_of_a_bond_has_no_rdma_device(plant: Plant) -> None:
    """E79: functions .1 belong to the bond of their .0."""
    tree = port("mlx5_bond_0/1", layer="Ethernet") | on_pci("0000:1a:00.0", "mlx5_bond_0") | on_pci("0000:1a:00.1")
    assert brief(list(ib_port(plant(tree), count=2))) == [("node", "ib_port_count_low")]


def test_a_switch_manager_whose_driver_is_missing_is_not_missed(plant: Plant) -> None:
    """E75: on HGX B200 a function that only serves NVSwitches needs no driver of ours."""
    tree = b200() | on_pci("0000:f1:00.0", driver="") | {f"{DEVICES}/0000:f1:00.0/vpd": b"\x82CX7\x90\x20V3SW_MNG"}
    assert list(ib_port(plant(tree), count=8)) == []


def test_a_missing_file_in_dev_is_told(plant: Plant) -> None:
    """Like E74: sysfs has it, udev did not make it."""
    verbs = {f"/sys/class/infiniband_verbs/uverbs{n}/ibdev": f"mlx5_{n}\n" for n in range(2)}
    host = plant(hcas(2) | verbs | {"/dev/infiniband/uverbs0": ""})
    assert brief(list(ib_port(host, count=2))) == [("mlx5_1", "ib_no_device_file")]
    host.path("/dev/infiniband/uverbs0").unlink()
    assert list(ib_port(host, count=2)) == []


def test_a_missing_issm_is_nothing(plant: Plant) -> None:
    """E74: some makers switch subnet management off, and issm with it."""
    verbs = {f"/sys/class/infiniband_verbs/uverbs{n}/ibdev": f"mlx5_{n}\n" for n in range(2)}
    nodes = {f"/dev/infiniband/{name}": "" for name in ("uverbs0", "uverbs1", "issm0", "umad0")}
    assert list(ib_port(plant(hcas(2) | verbs | nodes), count=2)) == []


@pytest.mark.parametrize(
    ("state", "physical", "expected"),
    [
        ("4", "5", []),
        ("Active", "LINK_UP", []),
        ("5: ACTIVE_DEFER", "5: Link Up", []),
        ("2: Initializing", "5: LinkUp", ["ib_port_init"]),
        ("3: Armed", "5: LinkUp", ["ib_port_init"]),
        ("1: Down", "3: Disabled", ["ib_port_down"]),
        ("1", "2: Polling", ["ib_port_down"]),
        ("0: NOP", "0: <unknown>", ["ib_port_down"]),
        ("4: ACTIVE", "6: LinkErrorRecovery", ["ib_port_training"]),
        ("4: ACTIVE", "4: Port_Configuration_Training", ["ib_port_training"]),
        ("4: ACTIVE", "7: Phy Test", []),
        ("9", "5: LinkUp", ["ib_port_unreadable"]),
    ],
)
def test_words_of_states_in_every_spelling(plant: Plant, state: str, physical: str, expected: list[str]) -> None:
    host = plant(hcas(1, mlx5_0=(state, physical, UP[2])))
    assert [f.code for f in ib_port(host, count=1)] == expected


def rails(infiniband: int, ethernet: int) -> dict[str, str]:
    tree = hcas(infiniband)
    for number in range(infiniband, infiniband + ethernet):
        tree |= port(f"mlx5_{number}/1", layer="Ethernet")
    return tree


def test_ports_of_the_other_layer_make_up_for_none(plant: Plant) -> None:
    """E80: two adapters for storage are up and one rail is down."""
    host = plant(rails(8, 2) | port("mlx5_3/1", POLLING))
    assert brief(list(ib_port(host, count=8))) == [("mlx5_3/1", "ib_port_unused")]
    assert brief(list(ib_port(host, count=8, layer="InfiniBand"))) == [("mlx5_3/1", "ib_port_down")]


def test_a_port_set_to_the_other_layer_is_a_matter_of_settings(plant: Plant) -> None:
    """E80: LINK_TYPE_P1."""
    host = plant(rails(7, 1))
    (found,) = ib_port(host, count=8, layer="InfiniBand")
    assert (found.target, found.code, found.blame) == ("mlx5_7/1", "ib_port_layer", "config")
    assert brief(list(ib_port(host, expected=("mlx5_7",), layer="InfiniBand"))) == [("mlx5_7/1", "ib_port_layer")]
    assert run_check(load()["ib_port"], host, {"layer": "Infiniband"}).findings[0].code == "check_error"


def test_a_port_that_was_up_before_the_agent_started_again_is_a_fault_when_down(plant: Plant) -> None:
    """E71, E73: of this boot; of the next one names may differ."""
    host = plant(hcas(1) | boot())
    assert list(ib_port(host)) == []
    restarted(host)
    rewrite(host, port("mlx5_0/1", POLLING))
    assert brief(list(ib_port(host))) == [("mlx5_0/1", "ib_port_down")]
    restarted(host)
    host.path("/proc/sys/kernel/random/boot_id").write_text("b2\n")
    assert list(ib_port(host)) == []


def test_flaps_during_a_restart_count_and_clear_by_themselves(plant: Plant) -> None:
    """E78."""
    host = plant(port("mlx5_0/1", downed=3) | boot())
    host.clock = clock = Clock()
    list(ib_port(host))
    restarted(host)
    clock.seconds += 200
    rewrite(host, port("mlx5_0/1", downed=15))
    assert [f.evidence["growth"] for f in ib_port(host)] == [12]
    clock.seconds += 3600
    assert list(ib_port(host)) == []


@pytest.mark.parametrize("kept", [None, 5, {"boot": "b1", "up": 3}, {"boot": "b1", "down_at": {"mlx5_0/1": 9e9}}])
def test_a_broken_memory_is_none(plant: Plant, kept: object) -> None:
    host = plant(hcas(1) | boot())
    host.memory = {"ports": kept, "counters": kept}
    assert list(ib_port(host, count=1)) == []


def test_every_port_is_asked_for_itself(plant: Plant) -> None:
    """mlx4 has two, of which one is another network's."""
    tree = port("mlx4_0/1") | port("mlx4_0/2", DISABLED, layer="Ethernet")
    host = plant(tree)
    assert [p.name for p in ports(host)] == ["mlx4_0/1", "mlx4_0/2"]
    assert list(ib_port(host, count=1)) == []


def test_the_administrators_adapter_may_lack_verbs(plant: Plant) -> None:
    """E73: no program of a job opens it."""
    admin, link = "0000:81:00.0", "-> ../../../bus/pci/devices/0000:81:00.0"
    tree = hcas(1) | port("mlx5_9/1", layer="Ethernet") | on_pci(admin, "mlx5_9")
    tree |= {"/sys/class/net/eth0/device": link, "/sys/class/infiniband_verbs/uverbs0/ibdev": "mlx5_0\n"}
    tree |= {
        "/proc/net/route": "Iface Destination Gateway Flags RefCnt Use Metric Mask\n"
        "eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\n"
    }
    assert list(ib_port(plant(tree), count=1)) == []


def test_a_spare_port_is_not_accused_in_place_of_a_dead_adapter(plant: Plant) -> None:
    """E71, E79: as many ports are listed as are promised, and one of them is a spare one's."""
    tree = hcas(7) | port("mlx5_0/2", DISABLED) | on_pci("0000:3c:00.0", driver="")
    assert brief(list(ib_port(plant(tree), count=8))) == [
        ("node", "ib_port_count_low"),
        ("0000:3c:00.0", "ib_adapter_dead"),
    ]
