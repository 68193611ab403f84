"""What only a driver's own list tells is judged by growth, also by a worker that ends between two looks."""

from __future__ import annotations

import pytest

from checks.catalog import load
from checks.declare import CHECKS
from checks.judge.policy import PolicyError, read_pack
from checks.net.roce_pause import roce_pause
from checks.runner import run_check
from tests.checks.net.test_adapters import boot, restarted
from tests.checks.net.test_ib_port import hcas
from tests.checks.net.test_roce import rail
from tests.fakes import Plant

RECORD = "/nodevet-commands/ethtool_-S_eth0"


def listed(**counters: int) -> str:
    lines = ["NIC statistics:", "     rx_packets: 81985529216", "     ch0_events: garbage", *()]
    return "\n".join([*lines, *(f"     {name}: {value}" for name, value in counters.items())]) + "\n"


@pytest.mark.parametrize(
    ("counters", "expected"),
    [
        ({"rx_prio0_pause_duration": 100_000_000, "rx_prio3_pause_duration": 200_000_000}, []),
        ({"rx_prio0_pause_duration": 200_000_000, "rx_prio3_pause_duration": 200_000_000}, [("roce_paused", "fabric")]),
        ({"tx_prio3_pause_duration": 400_000_000}, [("roce_pausing", "node")]),
        ({"tx_pause_storm_error_events": 1}, [("roce_pause_storm", "node")]),
        ({"rx_discards_phy": 400_000, "rx_crc_errors_phy": 121}, [("roce_crc", "fabric"), ("roce_discards", "fabric")]),
        ({"rx_prio3_pause": 10**15}, []),
    ],
)
def test_growth_within_an_hour(plant: Plant, counters: dict[str, int], expected: list[tuple[str, str]]) -> None:
    """The worker is another one at each look, as the agent has it."""
    host = plant(rail() | boot() | {RECORD: listed(**dict.fromkeys(counters, 7_000_000))})
    now = 0.0
    host.clock = lambda: now
    assert [f.status for f in roce_pause(host)] == ["ok"]
    restarted(host)
    now += 3601.0
    host.path(RECORD).write_text(listed(**{n: 7_000_000 + more for n, more in counters.items()}))
    found = [f for f in roce_pause(host) if f.status != "ok"]
    assert sorted((str(f.evidence["counter"]), str(f.blame)) for f in found) == expected
    assert {f.status for f in found} <= {"warn"}


def test_without_the_tool_or_a_roce_port_it_is_skipped(plant: Plant) -> None:
    declared = load()["roce_pause"]
    host = plant(rail())
    assert [f.status for f in run_check(declared, host).findings] == ["skipped"]
    host.path(RECORD).parent.mkdir(parents=True)
    host.path(RECORD).write_text("no stats available\n")
    assert [f.status for f in run_check(declared, host).findings] == ["skipped"]


def test_infiniband_is_not_asked(plant: Plant) -> None:
    assert [f.status for f in run_check(load()["roce_pause"], plant(hcas(2))).findings] == ["skipped"]


def test_a_check_that_starts_a_program_is_asked_seldom_and_in_a_lane_of_its_own() -> None:
    declared = CHECKS["roce_pause"]
    assert declared.interval >= 3600
    assert [c.name for c in CHECKS.values() if c.lane == declared.lane] == ["roce_pause"]


@pytest.mark.parametrize("path", ["ethtool/../x", "ethtool/", "ethtool/a b", "ethtool/a/b"])
def test_a_wrong_path_is_refused(path: str) -> None:
    with pytest.raises(PolicyError, match=r"counter\.x"):
        read_pack(f'version = "1"\n[counter.x]\npath = "{path}"\n', "site.toml")
