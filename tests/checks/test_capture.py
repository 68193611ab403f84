"""A captured profile fits the node it was taken from, and no fault becomes an expectation."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks import Host
from checks.capture import NotGood, capture
from checks.gpu.pci import pci_gpus
from checks.profile import match_profile, profiles, read_profile
from deploy.simcluster.host import SimHost


@pytest.fixture
def sim(tmp_path: Path) -> SimHost:
    return SimHost(tmp_path / "n1", "n1").create()


def host(sim: SimHost) -> Host:
    return Host(root=sim.sysroot, kmsg=sim.kmsg, simulated=True)


def test_it_asks_what_the_shipped_profile_of_this_board_asks(sim: SimHost) -> None:
    made = read_profile(capture(host(sim), "rack7", "Rack 7"), "rack7.toml")
    shipped = profiles()["hgx-h100"]
    for check in (
        "gpu_count", "gpu_driver", "gpu_cuda", "gpu_affinity", "gpu_peermem", "gpu_nvlink", "gpu_nvlink_speed",
        "ib_port", "pcie_link",
    ):  # fmt: skip
        assert made.checks[check] == shipped.checks[check], check
    assert set(shipped.match.pci.items()) <= set(made.match.pci.items())
    assert int(str(made.checks["memory"]["min_gib"])) > 1000
    assert match_profile(host(sim), {"rack7": made}).name == "rack7"


def test_modules_and_numa_nodes_are_expected_as_they_are(sim: SimHost) -> None:
    made = read_profile(capture(host(sim), "x", "x"), "x.toml")
    assert made.checks["memory_modules"] == {"count": 32}
    assert made.checks["numa"] == {"nodes": 2}
    assert "beside_processors" not in made.checks["memory"]


def test_the_memory_of_gpus_is_no_expectation_of_modules(sim: SimHost) -> None:
    seen, own = host(sim), 1006 * 1024**2
    for node, (kib, cpus) in enumerate([(own, "0-111"), (own, "112-223"), (186 * 1024**2, ""), (0, "")]):
        home = seen.path(f"/sys/devices/system/node/node{node}")
        home.mkdir(exist_ok=True)
        (home / "meminfo").write_text(f"Node {node} MemTotal:       {kib} kB\n")
        (home / "cpulist").write_text(f"{cpus}\n")
    made = read_profile(capture(seen, "x", "x"), "x.toml")
    assert made.checks["memory"] == {"min_gib": int(2 * 1006 * 0.99), "beside_processors": True}
    assert made.checks["numa"] == {"nodes": 2}


def test_what_is_missing_around_the_gpus_is_not_expected(sim: SimHost) -> None:
    sim.inject("peermem_unloaded")
    seen = host(sim)
    seen.path("/sys/bus/pci/devices/0000:19:00.0/numa_node").write_text("-1\n")
    made = read_profile(capture(seen, "x", "x"), "x.toml")
    assert not {"gpu_peermem", "gpu_affinity"} & made.checks.keys()


def test_a_lost_gpu_is_no_expectation(sim: SimHost) -> None:
    """Rule 4."""
    sim.inject("gpu_lost", gpu=3)
    with pytest.raises(NotGood, match="does not answer"):
        capture(host(sim), "x", "x")


def test_a_narrow_link_is_no_expectation(sim: SimHost) -> None:
    seen = host(sim)
    bdf = pci_gpus(seen)[2].bdf
    seen.path(f"/sys/bus/pci/devices/{bdf}/current_link_width").write_text("8\n")
    with pytest.raises(NotGood, match="different width"):
        capture(seen, "x", "x")


def test_a_port_that_is_down_is_named_and_not_counted(sim: SimHost) -> None:
    """Whoever reads the profile sees it."""
    sim.inject("ib_down", hca="mlx5_4")
    made = read_profile(capture(host(sim), "x", "x"), "x.toml")
    assert made.checks["ib_port"]["count"] == 7 and made.checks["ib_port"]["ignore"] == ["mlx5_4/1"]


def test_hostile_names_stay_text(sim: SimHost) -> None:
    title = 'a"\n[checks.gpu_count]\nexpected = 1\n'
    made = read_profile(capture(host(sim), "x", title), "x.toml")
    assert made.title == title and made.checks["gpu_count"]["expected"] == 8


def test_this_very_machine_gives_one() -> None:
    assert read_profile(capture(Host(), "here", "here"), "here.toml").checks["processors"]["expected"]


def test_a_node_that_no_device_tells_apart_says_how_its_profile_is_chosen(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:       24000000 kB\n")
    (tmp_path / "sys/devices/system/cpu").mkdir(parents=True)
    (tmp_path / "sys/devices/system/cpu/online").write_text("0-1\n")
    made = capture(Host(root=tmp_path, simulated=True), "login", "login")
    assert '# No PCI device tells this kind of node: set profile = "login" under [agent].' in made.splitlines()
    assert read_profile(made, "login.toml").name == "login"


def test_a_node_with_devices_is_chosen_by_them(sim: SimHost) -> None:
    assert "No PCI device" not in capture(host(sim), "x", "x")
