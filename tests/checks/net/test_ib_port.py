"""Ports are judged against the profile, and one bad adapter hides no other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from checks import CHECKS, Finding, Host
from checks.net.ib_port import ib_port
from checks.net.port_codes import DOWN, SLOW
from checks.runner import run_check
from tests.fakes import Plant

UP = ("4: ACTIVE", "5: LinkUp", "400 Gb/sec (4X NDR)")
POLLING = ("1: DOWN", "2: Polling", "10 Gb/sec (4X SDR)")
DISABLED = ("1: DOWN", "3: Disabled", "10 Gb/sec (4X SDR)")
INIT = ("2: INIT", "5: LinkUp", "400 Gb/sec (4X NDR)")
SLOWER = ("4: ACTIVE", "5: LinkUp", "200 Gb/sec (4X HDR)")


def port(name: str, status: tuple[str, str, str] = UP, *, downed: int = 0, layer: str = "InfiniBand") -> dict[str, str]:
    hca, _, number = name.partition("/")
    base = f"/sys/class/infiniband/{hca}/ports/{number or '1'}"
    values = dict(zip(("state", "phys_state", "rate"), status, strict=True))
    values |= {"link_layer": layer, "counters/link_downed": str(downed)}
    return {f"{base}/{key}": f"{value}\n" for key, value in values.items()}


def hcas(count: int, **other: tuple[str, str, str]) -> dict[str, str]:
    tree: dict[str, str] = {}
    for number in range(count):
        tree |= port(f"mlx5_{number}/1", other.get(f"mlx5_{number}", UP))
    return tree


def brief(found: list[Finding]) -> list[tuple[str, str]]:
    return [(f.target, f.code) for f in found]


class Clock:
    """Monotonic seconds that a test moves by hand."""

    seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def rewrite(host: Host, tree: Mapping[str, str]) -> None:
    for name, text in tree.items():
        host.path(name).write_text(text)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (UP, []),
        (POLLING, [DOWN("mlx5_7/1", state="DOWN", physical="Polling")]),
        (SLOWER, [SLOW("mlx5_7/1", rate=200.0, min_gbps=400)]),
    ],
)
def test_judges_a_port(plant: Plant, status: tuple[str, str, str], expected: list[Finding]) -> None:
    host = plant(hcas(8, mlx5_7=status))
    assert list(ib_port(host, count=8, min_gbps=400)) == expected


def test_every_bad_port_is_named(plant: Plant) -> None:
    host = plant(hcas(8, mlx5_0=POLLING, mlx5_5=POLLING))
    assert brief(list(ib_port(host, count=8))) == [("mlx5_0/1", "ib_port_down"), ("mlx5_5/1", "ib_port_down")]


def test_a_port_without_subnet_manager_blames_the_fabric(plant: Plant) -> None:
    """E81: link up, state INIT."""
    (found,) = ib_port(plant(hcas(2, mlx5_1=INIT)), count=2)
    assert (found.code, found.status, found.blame) == ("ib_port_init", "fail", "fabric")


def test_a_port_that_was_never_up_needs_evidence(plant: Plant) -> None:
    """E71: a second port that is disabled on purpose is no fault."""
    host = plant(hcas(2) | port("mlx5_0/2", DISABLED))
    assert list(ib_port(host)) == []
    assert list(ib_port(host, count=2)) == []


def test_a_port_that_went_down_is_always_a_fault(plant: Plant) -> None:
    """E71: ACTIVE to DOWN at run time needs no profile."""
    host = plant(hcas(2))
    assert list(ib_port(host)) == []
    rewrite(host, port("mlx5_1/1", POLLING))
    assert brief(list(ib_port(host))) == [("mlx5_1/1", "ib_port_down")]


def test_an_extra_port_that_is_down_is_a_matter_of_settings(plant: Plant) -> None:
    """E80: nine ports, eight expected, the ninth down."""
    (found,) = ib_port(plant(hcas(9, mlx5_8=POLLING)), count=8)
    assert (found.target, found.code, found.blame) == ("mlx5_8/1", "ib_port_unused", "config")


def test_two_down_where_one_is_extra_cannot_be_told_apart(plant: Plant) -> None:
    (found,) = ib_port(plant(hcas(9, mlx5_7=POLLING, mlx5_8=POLLING)), count=8)
    assert (found.target, found.code, found.evidence["up"]) == ("node", "ib_port_count_low", 7)


def test_expected_ports_are_held_by_name(plant: Plant) -> None:
    host = plant(hcas(2, mlx5_1=POLLING))
    found = brief(list(ib_port(host, expected=("mlx5_0/1", "mlx5_1/1", "mlx5_9/1"))))
    assert found == [("mlx5_9/1", "ib_port_absent"), ("mlx5_1/1", "ib_port_down")]


def test_an_adapter_that_died_before_we_looked_is_missed(plant: Plant) -> None:
    """E79: on PCI, without driver and RDMA device; the expectation is the profile's."""
    pci = "/sys/bus/pci/devices/0000:69:01.0"
    host = plant(hcas(7) | {f"{pci}/vendor": "0x15b3\n", f"{pci}/device": "0x1021\n", f"{pci}/class": "0x020700\n"})
    assert brief(list(ib_port(host, count=8))) == [("node", "ib_port_count_low"), ("0000:69:01.0", "ib_adapter_dead")]
    assert brief(list(ib_port(host, count=7))) == [("0000:69:01.0", "ib_adapter_unbound")]


def test_virtual_functions_are_left_out(plant: Plant) -> None:
    """E81: virtual functions are LinkUp and DOWN or INIT by nature."""
    tree = hcas(1) | port("mlx5_1/1", INIT) | {"/sys/class/infiniband/mlx5_1/device/physfn/vendor": "0x15b3"}
    assert list(ib_port(plant(tree), count=1)) == []


def test_the_management_adapter_is_left_out(plant: Plant) -> None:
    """E73: the adapter of the default route is not the jobs'."""
    device = "-> ../../../bus/pci/devices/0000:81:00.0"
    tree = hcas(1) | port("mlx5_9/1", POLLING, layer="Ethernet")
    tree |= {
        "/sys/bus/pci/devices/0000:81:00.0/class": "0x020000\n",
        "/sys/class/infiniband/mlx5_9/device": device,
        "/sys/class/net/eth0/device": device,
        "/proc/net/route": "Iface Destination Gateway Flags RefCnt Use Metric Mask\n"
        "eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\n",
    }
    assert list(ib_port(plant(tree), count=1)) == []


def test_an_unreadable_port_makes_no_expectation(plant: Plant) -> None:
    """E71, E73: without a profile a port that was never up stays unjudged, whatever else cannot be read."""
    host = plant(hcas(2, mlx5_1=POLLING))
    state = host.path("/sys/class/infiniband/mlx5_0/ports/1/state")
    state.unlink()
    state.mkdir()
    assert brief(list(ib_port(host))) == [("mlx5_0/1", "ib_port_unreadable")]


def test_one_unreadable_port_hides_no_other(plant: Plant) -> None:
    """E73: one unreadable device once deferred all checks."""
    host = plant(hcas(3, mlx5_2=POLLING))
    state = host.path("/sys/class/infiniband/mlx5_0/ports/1/state")
    state.unlink()
    state.mkdir()
    assert brief(list(ib_port(host, count=3))) == [
        ("mlx5_0/1", "ib_port_unreadable"),
        ("mlx5_2/1", "ib_port_down"),
    ]


@pytest.mark.parametrize("rate", ["N/A", "", "garbage", "9" * 400, "100000 Gb/sec"])
def test_odd_text_is_tolerated(plant: Plant, rate: str) -> None:
    """E76: other drivers leave files out or write other words."""
    tree = port("i40iw0/1", ("4: ACTIVE", "5: LinkUp", rate))
    tree.pop("/sys/class/infiniband/i40iw0/ports/1/counters/link_downed")
    host = plant(tree | {"/sys/class/infiniband/hfi1_0/ports/1/state": "", "/sys/class/infiniband/hfi1_0/fw_ver": "1"})
    found = run_check(CHECKS["ib_port"], host).findings
    assert {f.status for f in found} <= {"ok", "unknown"}


def test_a_counter_of_another_kind_is_no_number(plant: Plant) -> None:
    tree = port("hfi1_0/1") | {"/sys/class/infiniband/hfi1_0/ports/1/counters/link_downed": "N/A (no PMA)\n"}
    assert list(ib_port(plant(tree))) == []


def test_an_efa_port_has_no_rate_to_judge(plant: Plant) -> None:
    """E82: hard-coded ACTIVE and an unknown link layer."""
    tree = port("rdmap16s27/1", ("4: ACTIVE", "5: LinkUp", "2.5 Gb/sec (1X SDR)"), layer="Unknown")
    assert list(ib_port(plant(tree), count=1, min_gbps=100)) == []


def test_a_missing_uverbs_device_is_a_fault(plant: Plant) -> None:
    """E74: ports ACTIVE, and no program can open the adapter; issm is not asked for."""
    host = plant(hcas(2) | {"/sys/class/infiniband_verbs/uverbs0/ibdev": "mlx5_0\n"})
    assert brief(list(ib_port(host, count=2))) == [("mlx5_1", "ib_no_verbs")]


@pytest.mark.parametrize(("before", "after", "expected"), [(3, 3, []), (3, 13, []), (3, 15, ["ib_port_flapping"])])
def test_growth_of_link_downed_is_the_sign(plant: Plant, before: int, after: int, expected: list[str]) -> None:
    """E78: 3 since boot is normal, 3 to 15 is not."""
    host = plant(port("mlx5_0/1", downed=before))
    assert list(ib_port(host, count=1)) == []
    rewrite(host, port("mlx5_0/1", downed=after))
    assert [f.code for f in ib_port(host, count=1)] == expected


def test_flapping_ends_when_the_link_is_stable(plant: Plant) -> None:
    """E78: sticky, then cleared by itself."""
    host = plant(port("mlx5_0/1"))
    host.clock = clock = Clock()
    list(ib_port(host))
    rewrite(host, port("mlx5_0/1", downed=12))
    assert [f.code for f in ib_port(host)] == ["ib_port_flapping"]
    clock.seconds += 3000
    assert [f.code for f in ib_port(host)] == ["ib_port_flapping"]
    clock.seconds += 1000
    assert list(ib_port(host)) == []


def test_a_port_that_came_back_stays_visible_for_a_while(plant: Plant) -> None:
    """E78: down for five minutes, then ACTIVE; the message never says ok."""
    host = plant(hcas(1))
    host.clock = clock = Clock()
    list(ib_port(host))
    rewrite(host, port("mlx5_0/1", POLLING))
    list(ib_port(host))
    clock.seconds += 300
    rewrite(host, port("mlx5_0/1"))
    (found,) = ib_port(host)
    assert (found.code, found.status, "ok" in found.message) == ("ib_port_came_back", "warn", False)
    clock.seconds += 600
    assert list(ib_port(host)) == []


def test_ignored_adapters_and_ports_are_left_out(plant: Plant) -> None:
    host = plant(hcas(3, mlx5_1=POLLING, mlx5_2=POLLING))
    assert list(ib_port(host, count=1, ignore=("mlx5_1", "mlx5_2/1"))) == []


def test_skips_a_node_without_adapters(plant: Plant) -> None:
    (found,) = run_check(CHECKS["ib_port"], plant()).findings
    assert found.status == "skipped"


def test_no_adapter_at_all_where_eight_are_promised(plant: Plant) -> None:
    """E107: with no sign of an adapter anywhere the check is more likely blind."""
    (found,) = ib_port(plant(), count=8)
    assert (found.code, found.status, found.blame) == ("ib_port_no_sign", "unknown", "self")


def test_adapters_on_the_bus_without_a_single_port_are_a_fault(plant: Plant) -> None:
    pci = "/sys/bus/pci/devices/0000:1a:00.0"
    tree = {
        f"{pci}/vendor": "0x15b3\n",
        f"{pci}/device": "0x1021\n",
        f"{pci}/class": "0x020700\n",
        f"{pci}/driver": "-> ../drivers/mlx5_core",
        "/sys/class/net/lo/type": "772\n",
    }
    assert brief(list(ib_port(plant(tree), count=8))) == [
        ("node", "ib_port_count_low"),
        ("0000:1a:00.0", "ib_adapter_no_rdma"),
    ]


def test_a_loop_of_links_is_survived(plant: Plant, tmp_path: Path) -> None:
    host = plant(hcas(1) | {"/sys/class/infiniband/mlx5_0/device": "-> device"})
    assert list(ib_port(host, count=1)) == []
