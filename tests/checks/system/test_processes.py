"""Only a process that waits at every look is stuck, and no name of a process confuses the count."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks import Finding, Host
from checks.catalog import load
from checks.runner import run_check
from checks.system.processes import processes
from tests.fakes import Plant

ROOM = {
    "/proc/loadavg": "0.1 0.1 0.1 1/2310 4242\n",
    "/proc/sys/kernel/pid_max": "4194304\n",
    "/proc/sys/kernel/threads-max": "1000000\n",
    "/proc/sys/fs/file-nr": "9120\t0\t9223372036854775807\n",
}


def stat(pid: int, state: str, *, comm: str = "python3", start: int = 500) -> dict[str, str | bytes]:
    text = f"{pid} ({comm}) {state} 1 {pid} {pid} 0 -1 0 0 0 0 0 90 10 0 0 20 0 1 0 {start} 0 0\n"
    return {f"/proc/{pid}/stat": text, f"/proc/{pid}/wchan": "nfs_wait_bit_killable"}


class Node:
    """A host whose processes and clock a test moves."""

    def __init__(self, plant: Plant, *stats: dict[str, str | bytes]) -> None:
        self.host: Host = plant({k: v for s in stats for k, v in s.items()} | ROOM)
        self.now = 0.0
        self.host.clock = lambda: self.now

    def put(self, stats: dict[str, str | bytes]) -> None:
        for name, text in stats.items():
            self.host.path(name).write_text(str(text))

    def codes(self, seconds: float = 0.0) -> list[str]:
        self.now += seconds
        return [f.code for f in processes(self.host) if f.status != "ok"]


def test_a_process_that_waits_at_every_look_is_stuck(plant: Plant) -> None:
    node = Node(plant, stat(7, "D"), stat(8, "S"))
    assert [node.codes(60.0) for _ in range(5)] == [[]] * 5
    assert node.codes(60.0) == ["processes_stuck"]
    found = next(iter(processes(node.host)))
    assert (found.status, found.blame, found.evidence["pid"]) == ("warn", "node", 7)
    assert "nfs_wait_bit_killable" in found.message


def test_one_look_in_between_at_which_it_runs_begins_anew(plant: Plant) -> None:
    node = Node(plant, stat(7, "D"))
    node.codes(290.0)
    node.put(stat(7, "R"))
    node.codes(5.0)
    node.put(stat(7, "D"))
    assert node.codes(10.0) == []


def test_another_process_with_the_same_number_begins_anew(plant: Plant) -> None:
    node = Node(plant, stat(7, "D", start=500))
    node.codes(290.0)
    node.put(stat(7, "D", start=900))
    assert node.codes(20.0) == []


@pytest.mark.parametrize("comm", ["a) D 1 (", ") Z 0 0 0", "x y z", "\\n", "(((("])
def test_a_name_is_no_state(plant: Plant, comm: str) -> None:
    """Rule 12: fifteen characters of a user's choice stand in the middle of the line."""
    node = Node(plant, stat(7, "S", comm=comm))
    assert [f.evidence["waiting"] for f in processes(node.host)] == [0]


def test_many_zombies_are_the_programs(plant: Plant) -> None:
    node = Node(plant, *(stat(pid, "Z") for pid in range(10, 22)))
    (found,) = [f for f in processes(node.host, max_zombies=10) if f.status != "ok"]
    assert (found.code, found.blame, found.evidence["count"]) == ("zombies_many", "job", 12)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"/proc/loadavg": "9 9 9 1/800000 1\n"}, "process_ids_short"),
        ({"/proc/sys/kernel/pid_max": "2800\n"}, "process_ids_short"),
        ({"/proc/sys/fs/file-nr": "81\t0\t100\n"}, "open_files_short"),
    ],
)
def test_little_room_is_told(plant: Plant, files: dict[str, str], expected: str) -> None:
    node = Node(plant, stat(7, "S"))
    node.put(dict(files))
    assert node.codes() == [expected]


def test_a_process_that_ends_while_we_look_is_no_error(plant: Plant) -> None:
    node = Node(plant, stat(7, "S"))
    Path(node.host.path("/proc/9")).mkdir()
    assert node.codes() == []


def test_asks_this_very_machine() -> None:
    found: tuple[Finding, ...] = run_check(load()["processes"], Host()).findings
    assert {f.status for f in found} <= {"ok", "warn"}, found  # what other tests do here may be worth a warning
