"""Processors are counted by what the kernel has online and judged only by what the profile names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks import Finding, Host
from checks.catalog import load
from checks.runner import run_check
from checks.system.processors import CPUS, cpu_list, processors, spelled
from tests.fakes import Plant

INFO = "processor\t: {}\nmicrocode\t: {}\n\n"


def tree(online: str, present: str, *, smt: str = "on", microcode: tuple[str, ...] = ("0x1", "0x1")) -> dict[str, str]:
    info = "".join(INFO.format(n, version) for n, version in enumerate(microcode))
    files = {f"{CPUS}/online": online, f"{CPUS}/present": present, f"{CPUS}/smt/control": smt, "/proc/cpuinfo": info}
    for n in cpu_list(online):
        files[f"{CPUS}/cpu{n}/topology/physical_package_id"] = f"{n // 4}\n"
    return files


def brief(found: list[Finding]) -> list[str]:
    return [f.code for f in found]


@pytest.mark.parametrize(
    ("files", "options", "expected"),
    [
        (tree("0-7\n", "0-7\n"), {"expected": 8, "sockets": 2, "smt": "on"}, ["ok"]),
        (tree("0-7\n", "0-7\n"), {}, ["ok"]),
        (tree("0-3\n", "0-3\n"), {"expected": 8, "sockets": 2}, ["cpu_count_low", "cpu_socket_missing"]),
        (tree("0-5,7\n", "0-7\n"), {"expected": 4}, ["ok", "cpu_offline"]),
        (tree("0-3\n", "0-7\n", smt="off"), {}, ["ok"]),
        (tree("0-3\n", "0-7\n", smt="forceoff"), {"smt": "on"}, ["ok", "cpu_threads_wrong"]),
        (tree("0-7\n", "0-7\n", smt="notsupported"), {"smt": "off"}, ["ok"]),
        (tree("0-7\n", "0-7\n", microcode=("0x1", "0x2")), {}, ["ok", "cpu_microcode_mixed"]),
    ],
)
def test_judges_what_is_named(
    plant: Plant, files: dict[str, str], options: dict[str, object], expected: list[str]
) -> None:
    assert brief(list(run_check(load()["processors"], plant(files), options).findings)) == expected


def test_a_missing_socket_is_the_nodes_and_a_setting_is_not(plant: Plant) -> None:
    files = tree("0-3\n", "0-3\n") | {f"{CPUS}/cpufreq/policy{n}/scaling_governor": "powersave\n" for n in range(4)}
    found = {f.code: f for f in processors(plant(files), expected=8, governor="performance")}
    assert (found["cpu_count_low"].status, found["cpu_count_low"].blame) == ("fail", "node")
    assert (found["cpu_governor_wrong"].status, found["cpu_governor_wrong"].blame) == ("warn", "config")
    assert found["cpu_governor_wrong"].evidence["wrong"] == 4


@pytest.mark.parametrize(("smt", "online"), [("off", "0-3"), ("forceoff", "0-3"), ("on", "0-3"), ("on", "0-6")])
def test_what_was_switched_off_is_not_gone(plant: Plant, smt: str, online: str) -> None:
    """Like E22: hyper-threading off on purpose (nosmt) halves the number, and no part of the node is broken."""
    found = [f for f in processors(plant(tree(online, "0-7", smt=smt)), expected=8) if f.code == "cpu_count_off"]
    assert [(f.status, f.blame) for f in found] == [("warn", "config")]


@pytest.mark.parametrize("package", ["-1\n", "", None])
def test_sockets_that_nobody_tells_are_not_missing(plant: Plant, package: str | None) -> None:
    """Like E23: firmware without such a table gives -1, a kept tree has no such file; both are no lost socket."""
    files = tree("0-7\n", "0-7\n")
    for name in [n for n in files if n.endswith("physical_package_id")]:
        files.pop(name) if package is None else files.update({name: package})
    found = run_check(load()["processors"], plant(files), {"sockets": 2, "smt": "off"}).findings
    assert [(f.code, f.status) for f in found] == [
        ("ok", "ok"), ("cpu_threads_wrong", "warn"), ("check_error", "unknown"),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "\n", "x", "3-1", "0-99999999", "-", "0--1"])
def test_an_unreadable_list_is_our_trouble(plant: Plant, text: str) -> None:
    (found,) = run_check(load()["processors"], plant(tree("0", "0") | {f"{CPUS}/online": text}), {}).findings
    assert (found.status, found.blame) == ("unknown", "self")


def test_asks_this_very_machine() -> None:
    found = list(processors(Host()))
    assert found[0].code == "ok" and int(str(found[0].evidence["online"])) >= 1


@given(st.sets(st.integers(0, 500)))
def test_a_list_and_its_spelling_are_inverse(numbers: set[int]) -> None:
    assert cpu_list(spelled(numbers)) == numbers
