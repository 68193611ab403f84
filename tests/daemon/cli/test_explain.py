"""The catalogue is listed whole, and each code with what the policy in force makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checks.catalog import load
from tests.daemon.cli.command import nodevet, write_config


def test_every_check_is_listed_with_its_codes(tmp_path: Path) -> None:
    done = nodevet("explain", "--list", "--json", config=write_config(tmp_path / "nodevet.toml"))
    assert done.returncode == 0
    found = {c["id"]: c for c in json.loads(done.stdout)}
    assert set(found) == set(load())
    count = found["gpu_count"]
    assert (count["subject"], count["cost"], count["lane"]) == ("gpu", "passive", load()["gpu_count"].lane)
    codes = {c["code"]: c for c in count["codes"]}
    assert codes["gpu_count_low"]["action"] == {"prolog": "refuse", "interval": "drain"}
    assert {c["code"] for c in found["clock"]["codes"]} >= {"clock_off"}
    assert all(c["action"]["interval"] == "admit" for c in found["clock"]["codes"])


def test_the_table_has_a_line_a_check(tmp_path: Path) -> None:
    done = nodevet("explain", "--list", config=write_config(tmp_path / "nodevet.toml"))
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].split()[0] == "CHECK"
    assert {line.split()[0] for line in lines[1:]} == set(load())


@pytest.mark.parametrize("argv", [("explain",), ("explain", "gpu_count", "--list")])
def test_one_of_both_is_asked_for(argv: tuple[str, ...]) -> None:
    done = nodevet(*argv)
    assert done.returncode == 64 and "name a code or a check, or give --list" in done.stderr
