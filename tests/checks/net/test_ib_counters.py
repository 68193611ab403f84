"""Counters are judged by their growth within a time, never by what they were when we came."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from checks import Finding, Host
from checks.catalog import load
from checks.host import _KEPT
from checks.judge.policy import PolicyError, read_pack, shipped
from checks.net.ib_counters import ib_counters
from checks.runner import run_check
from tests.fakes import Plant

PORT = "/sys/class/infiniband/mlx5_0/ports/1"
UP: dict[str, str | bytes] = {
    f"{PORT}/state": "4: ACTIVE\n",
    f"{PORT}/phys_state": "5: LinkUp\n",
    f"{PORT}/rate": "400 Gb/sec (4X NDR)\n",
    f"{PORT}/link_layer": "InfiniBand\n",
}


class Node:
    """A host with one port whose counters and clock a test moves."""

    def __init__(self, plant: Plant, **counters: object) -> None:
        files: dict[str, str | bytes] = {f"{PORT}/counters/{n}": f"{v}\n" for n, v in counters.items()}
        self.host: Host = plant(UP | files)
        self.now = 0.0
        self.host.clock = lambda: self.now

    def put(self, name: str, value: object, folder: str = "counters") -> None:
        path: Path = self.host.path(f"{PORT}/{folder}/{name}")
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{value}\n")

    def bad(self, seconds: float = 60.0, **options: Any) -> list[Finding]:
        self.now += seconds
        return [f for f in ib_counters(self.host, **options) if f.status != "ok"]


def test_what_stood_there_when_we_came_is_not_judged(plant: Plant) -> None:
    """E78: counters are other than 0 since boot."""
    node = Node(plant, symbol_error=900_000, local_link_integrity_errors=3, port_rcv_errors=70_000)
    assert [node.bad() for _ in range(5)] == [[]] * 5


def test_growth_beyond_the_limit_warns_and_blames_no_node(plant: Plant) -> None:
    node = Node(plant, symbol_error=5)
    node.bad()
    node.put("symbol_error", 125)
    assert node.bad() == []
    node.put("symbol_error", 126)
    (found,) = node.bad()
    assert (found.code, found.status, found.blame, found.target) == ("rdma_errors", "warn", "fabric", "mlx5_0/1")
    assert (found.evidence["growth"], found.evidence["limit"], found.evidence["counter"]) == (121, 120, "symbol_error")


def test_the_same_growth_over_a_longer_time_is_none(plant: Plant) -> None:
    node = Node(plant, symbol_error=0)
    for hour in range(1, 10):
        node.put("symbol_error", hour * 100)
        assert node.bad(3600.0) == []


def test_a_counter_that_was_cleared_begins_anew(plant: Plant) -> None:
    node = Node(plant, local_link_integrity_errors=40)
    node.bad()
    node.put("local_link_integrity_errors", 0)
    assert node.bad() == []
    node.put("local_link_integrity_errors", 2)
    assert [f.evidence["growth"] for f in node.bad()] == [2]


def test_one_that_was_cleared_and_grew_between_two_looks_shows_what_it_grew(plant: Plant) -> None:
    node = Node(plant, local_link_integrity_errors=40)
    node.bad()
    node.put("local_link_integrity_errors", 3)
    assert [f.evidence["growth"] for f in node.bad()] == [3]


@pytest.mark.parametrize("end", [65535, 4294967295])
def test_a_counter_at_its_end_is_told(plant: Plant, end: int) -> None:
    (found,) = Node(plant, symbol_error=end).bad()
    assert (found.code, found.status, found.blame) == ("rdma_counter_full", "warn", "config")


@pytest.mark.parametrize("text", ["N/A (no PMA)", "", "-3", "0x10"])
def test_what_is_no_number_is_no_counter(plant: Plant, text: str) -> None:
    """E76: some adapters write words."""
    assert Node(plant, symbol_error=text).bad() == []


def test_a_device_without_counters_is_none(plant: Plant) -> None:
    (found,) = run_check(load()["ib_counters"], plant(UP)).findings
    assert (found.status, found.evidence["counters"]) == ("ok", 0)


def test_a_port_that_is_down_or_left_out_is_not_asked(plant: Plant) -> None:
    node = Node(plant, symbol_error=0)
    assert run_check(load()["ib_counters"], node.host, {"ignore": ("mlx5_0",)}).findings[0].status == "skipped"
    node.host.path(f"{PORT}/state").write_text("1: DOWN\n")
    assert run_check(load()["ib_counters"], node.host).findings[0].status == "skipped"


def test_a_counter_of_the_other_layer_is_not_asked(plant: Plant) -> None:
    node = Node(plant)
    node.put("roce_slow_restart", 0, "hw_counters")
    node.bad()
    node.put("roce_slow_restart", 100_000, "hw_counters")
    assert node.bad() == []
    node.host.path(f"{PORT}/link_layer").write_text("Ethernet\n")
    node.bad()
    node.put("roce_slow_restart", 200_000, "hw_counters")
    assert [f.evidence["counter"] for f in node.bad()] == ["slow_restart"]


def test_a_site_changes_single_values(plant: Plant, tmp_path: Path) -> None:
    site = tmp_path / "policy.d"
    site.mkdir()
    (site / "a.toml").write_text(
        'version = "s"\n[counter.symbol_error]\nlimit = 10\nstatus = "fail"\n[counter.receive_errors]\noff = true\n'
    )
    node = Node(plant, symbol_error=0, port_rcv_errors=0)
    node.bad(policy_dir=str(site))
    node.put("symbol_error", 11)
    node.put("port_rcv_errors", 10_000_000)
    (found,) = node.bad(policy_dir=str(site))
    assert (found.evidence["counter"], found.status) == ("symbol_error", "fail")


def test_every_entry_is_whole_and_none_drains_by_itself() -> None:
    for name, rule in shipped().counter.items():
        assert rule.path and rule.means and rule.limit is not None and rule.within, name
        assert rule.status is None, name


@pytest.mark.parametrize("line", ['path = "../../etc/shadow"', 'blame = "self"', "within = 1.0", "limits = 3"])
def test_a_wrong_entry_names_its_place(line: str) -> None:
    with pytest.raises(PolicyError, match=r"counter\.x"):
        read_pack(f'version = "1"\n[counter.x]\n{line}\n', "site.toml")


def restarted(node: Node) -> None:
    """Another agent's process, to which only what was asked to be kept is given."""
    node.host.memory = dict(node.host.keeps)
    for key in [k for k in _KEPT if k[0] == node.host.root]:
        del _KEPT[key]


def test_errors_during_a_restart_of_the_agent_are_not_lost(plant: Plant) -> None:
    """E73: and what stood before the first agent never counts."""
    node = Node(plant, local_link_integrity_errors=9)
    node.host.path("/proc/sys/kernel/random").mkdir(parents=True)
    node.host.path("/proc/sys/kernel/random/boot_id").write_text("b1\n")
    assert node.bad() == []
    node.put("local_link_integrity_errors", 11)
    restarted(node)
    assert [f.evidence["growth"] for f in node.bad(300.0)] == [2]
    restarted(node)
    node.host.path("/proc/sys/kernel/random/boot_id").write_text("b2\n")
    assert node.bad() == []


def test_a_longer_pause_bears_as_many_times_more(plant: Plant) -> None:
    node = Node(plant, port_rcv_errors=0)
    node.host.path("/proc/sys/kernel/random").mkdir(parents=True)
    node.host.path("/proc/sys/kernel/random/boot_id").write_text("b1\n")
    node.bad()
    restarted(node)
    node.put("port_rcv_errors", 5000)
    assert node.bad(600.0) == []
    node.put("port_rcv_errors", 5700)
    assert [f.evidence["growth"] for f in node.bad(60.0)] == [700]


def test_a_free_running_counter_that_wraps_is_not_cleared(plant: Plant) -> None:
    node = Node(plant)
    node.put("packet_seq_err", 2**32 - 500, "hw_counters")
    node.bad()
    node.put("packet_seq_err", 200, "hw_counters")
    assert [f.evidence["growth"] for f in node.bad()] == [700]


def test_a_counter_of_four_bits_is_full_at_fifteen(plant: Plant) -> None:
    """The specification gives the classic counters 4, 8 and 16 bits; free-running ones have no end."""
    node = Node(plant, local_link_integrity_errors=15)
    node.put("packet_seq_err", 0xFFFFFFFF, "hw_counters")
    (found,) = node.bad()
    assert (found.code, found.evidence["counter"]) == ("rdma_counter_full", "local_link_integrity_errors")


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
def test_what_a_function_refuses_to_tell_is_asked_once(
    plant: Plant, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E75: each try makes its firmware complain in the kernel's log."""
    node = Node(plant, symbol_error=0, port_rcv_errors=0)
    node.put("packet_seq_err", 0, "hw_counters")
    asked: list[str] = []
    read = Host.read

    def refuse(host: Host, path: str | Path) -> str:
        if "/hw_counters/" in str(path) or "/counters/" in str(path):
            asked.append(str(path))
            raise OSError(number, "refused")
        return read(host, path)

    monkeypatch.setattr(Host, "read", refuse)
    assert [node.bad() for _ in range(3)] == [[], [], []]
    tried = [p for p in asked if "link_downed" not in p]
    assert len(tried) == 2


@pytest.mark.parametrize(
    ("names", "layer"),
    [
        (("rx_icrc_encapsulated", "np_cnp_sent", "rp_cnp_ignored", "roce_adp_retrans_to"), "Ethernet"),
        (("to_retransmits", "seq_err_naks_rcvd", "unrecoverable_err", "rx_roce_discards"), "Ethernet"),
        (("cnpIgnored", "tcpRetransSegs"), "Ethernet"),
        (("rx_drops", "unresponsive_remote_events", "retrans_timeout_events", "no_completion_cmds"), "Unknown"),
    ],
)
def test_other_makers_counters_are_known_by_their_names(plant: Plant, names: tuple[str, ...], layer: str) -> None:
    """E76, E82: RoCE of NVIDIA and Broadcom, irdma, EFA."""
    node = Node(plant)
    node.host.path(f"{PORT}/link_layer").write_text(f"{layer}\n")
    for name in names:
        node.put(name, 10, "hw_counters")
    assert node.bad() == []
    for name in names:
        node.put(name, 100_000_000, "hw_counters")
    found = node.bad()
    assert len(found) == len(names)
    assert {f.status for f in found} == {"warn"}


def test_a_counter_that_a_driver_adds_later_is_found(plant: Plant) -> None:
    """The names of a port's counters are asked for anew when its folder has changed."""
    node = Node(plant, symbol_error=0)
    assert node.bad() == []
    node.put("port_rcv_errors", 0)
    node.bad()
    node.put("port_rcv_errors", 10_000)
    assert [f.evidence["counter"] for f in node.bad()] == ["receive_errors"]


def test_checks_of_one_look_share_what_they_read(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(plant, symbol_error=0)
    asked: list[str] = []
    read = Host.read

    def counted(host: Host, path: str | Path) -> str:
        asked.append(str(path))
        return read(host, path)

    monkeypatch.setattr(Host, "read", counted)
    node.host.look = 1
    node.bad()
    node.bad()
    assert [p.endswith("/state") for p in asked].count(True) == 1
    node.host.look = 2
    node.host.path(f"{PORT}/state").write_text("1: DOWN\n")
    assert run_check(load()["ib_counters"], node.host).findings[0].status == "skipped"
