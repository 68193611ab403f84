"""IMEX is judged on trays of an NVLink rack only, by what profile or site promise."""

from __future__ import annotations

import json

import pytest

from checks import CHECKS, Host
from checks.catalog import load
from checks.gpu.imex import imex
from checks.gpu.imex_domain import imex_domain
from checks.profile import profiles
from checks.runner import run_check
from tests.fakes import Plant, pci_tree

SHOW = "/nodevet-commands/systemctl_show_-p_LoadState,ActiveState,SubState_nvidia-imex.service"
CTL = "/nodevet-commands/nvidia-imex-ctl_-N_-j"
NODES = "/etc/nvidia-imex/nodes_config.cfg"
CHANNEL = "/dev/nvidia-caps-imex-channels/channel0"
FIB = "Local:\n     |-- 10.0.0.1\n        /32 host LOCAL\n     |-- 10.0.0.255\n        /32 link BROADCAST\n"


def tray(plant: Plant, active: str = "active", sub: str = "running", **files: str) -> Host:
    tree = {
        SHOW: f"LoadState=loaded\nActiveState={active}\nSubState={sub}\n",
        "/proc/devices": "Character devices:\n195 nvidia\n505 nvidia-caps-imex-channels\n\nBlock devices:\n",
        NODES: "10.0.0.1\n10.0.0.2\n",
        "/proc/net/fib_trie": FIB,
        CHANNEL: "",
    }
    named = {"devices": "/proc/devices", "nodes": NODES}
    return plant(pci_tree(4, switches=0) | tree | {named[name]: text for name, text in files.items()})


def codes(host: Host, **options: object) -> list[tuple[str, str | None]]:
    return [(f.code, f.blame) for f in imex(host, rack=True, **options)]


@pytest.mark.parametrize(
    ("active", "sub", "service", "expected"),
    [
        ("active", "running", False, []),
        ("inactive", "dead", False, []),
        ("inactive", "dead", True, [("imex_down", "node")]),
        ("failed", "failed", False, [("imex_down", "node")]),
        ("activating", "start", True, []),
        ("activating", "auto-restart", True, [("imex_down", "node")]),
    ],
)
def test_a_daemon_that_is_started_for_each_job_may_rest(
    plant: Plant, active: str, sub: str, service: bool, expected: list[tuple[str, str | None]]
) -> None:
    """Like E120: prologs start it, so inactive is no fault unless the site says that it always runs."""
    assert codes(tray(plant, active, sub), service=service) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.1\n10.0.0.2\n", []),
        ("# trays\n10.0.0.1 # this one\n\n", []),
        ("", ["names no node"]),
        ("# only a comment\n", ["names no node"]),
        ("10.9.9.1\n10.9.9.2\n", ["names 2 addresses and none of this node"]),
        ("tray01\ntray02\n", []),
        ("10.9.9.1\ntray02\n", []),
        ("\x00\xff", []),
    ],
)
def test_the_nodes_file_names_this_node(plant: Plant, text: str, expected: list[str]) -> None:
    found = list(imex(tray(plant, nodes=text), rack=True))
    assert [f.message for f in found] == [f"nodes file {NODES} {problem}" for problem in expected]
    assert all((f.code, f.status, f.blame) == ("imex_nodes_missing", "warn", "config") for f in found)


def test_addresses_that_cannot_be_read_prove_nothing(plant: Plant) -> None:
    """Rule 1."""
    host = tray(plant, nodes="10.9.9.1\n")
    host.path("/proc/net/fib_trie").unlink()
    assert codes(host) == []


def test_no_nodes_file(plant: Plant) -> None:
    host = tray(plant)
    host.path(NODES).unlink()
    assert codes(host) == [("imex_nodes_missing", "config")]


def test_no_channels_by_the_driver(plant: Plant) -> None:
    assert codes(tray(plant, devices="Character devices:\n195 nvidia\n")) == [("imex_unsupported", "node")]


def test_channels_are_wanted_where_promised(plant: Plant) -> None:
    """Slurm's switch/nvidia_imex makes them for each job, so none is wanted by itself."""
    host = tray(plant)
    assert codes(host, channels=1) == []
    assert codes(host, channels=2) == [("imex_channel_missing", "config")]
    host.path(CHANNEL).unlink()
    assert codes(host) == []


@pytest.mark.parametrize("text", ["", "LoadState=loaded\n"])
def test_systemd_without_an_answer_is_no_fault(plant: Plant, text: str) -> None:
    """Rule 1."""
    host = tray(plant)
    host.path(SHOW).write_text(text)
    (found,) = imex(host, rack=True)
    assert (found.code, found.status, found.blame) == ("imex_unasked", "unknown", "self")


def test_other_machines_have_none(plant: Plant) -> None:
    for name in ("imex", "imex_domain"):
        (found,) = run_check(load()[name], tray(plant)).findings
        assert found.status == "skipped"
    assert CHECKS["imex"].lane == "system"
    racks = {name for name, profile in profiles().items() if profile.checks.get("imex", {}).get("rack")}
    assert racks == {"gb200-nvl72", "gb300-nvl72"}


def domain(status: str = "UP", **members: str) -> str:
    nodes = {
        str(number): {"status": told.split("/")[0], "host": f"10.0.0.{number}", "version": told.split("/")[1]}
        for number, told in enumerate(members.values())
    }
    return json.dumps({"nodes": nodes, "timestamp": "12/1/2026 00:37:39.905", "status": status})


READY, GONE = "READY/580.95.05", "UNAVAILABLE/580.95.05"


@pytest.mark.parametrize(
    ("text", "nodes", "expected"),
    [
        (domain(a=READY, b=READY), 2, []),
        (domain(a=READY, b=READY), 0, []),
        (domain("DEGRADED", a=READY, b=GONE), 0, ["IMEX domain is DEGRADED, 1 of 2 daemons ready"]),
        (domain("DOWN", a=GONE), 0, ["IMEX domain is DOWN, 0 of 1 daemons ready"]),
        (domain(a=READY), 18, ["IMEX domain has 1 nodes, expected 18"]),
        (
            domain(a=READY, b="READY/570.1"),
            0,
            ["daemons of the IMEX domain have 2 versions: 570.1, 580.95.05"],
        ),
    ],
)
def test_judges_the_domain(plant: Plant, text: str, nodes: int, expected: list[str]) -> None:
    found = [f for f in imex_domain(plant({CTL: text}), ask=True, nodes=nodes) if f.status != "ok"]
    assert [f.message for f in found] == expected
    assert all(f.status == "warn" and f.blame in ("fabric", "config") for f in found)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"status": "UP"}',
        '{"status": "SIDEWAYS", "nodes": {}}',
        '{"status": 3, "nodes": []}',
        "[" * 5000,
    ],
)
def test_garbage_is_no_news_of_the_node(plant: Plant, text: str) -> None:
    """Like E52, rule 1."""
    (found,) = imex_domain(plant({CTL: text}), ask=True)
    assert (found.code, found.status, found.blame) == ("imex_unasked", "unknown", "self")
