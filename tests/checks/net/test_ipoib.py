"""An interface over InfiniBand is judged when it is named."""

from __future__ import annotations

import pytest

from checks.catalog import load
from checks.runner import run_check
from tests.fakes import Plant


def ib0(state: str = "up", mtu: str = "4092", mode: str = "datagram", kind: str = "32") -> dict[str, str | bytes]:
    about = {"operstate": state, "mtu": mtu, "mode": mode, "type": kind}
    return {f"/sys/class/net/ib0/{name}": f"{value}\n" for name, value in about.items()}


@pytest.mark.parametrize(
    ("tree", "options", "expected"),
    [
        (ib0(), {"interfaces": ("ib0",)}, ["ok"]),
        (ib0("down"), {"interfaces": ("ib0",)}, ["ipoib_down"]),
        (ib0("down"), {}, ["not_applicable"]),
        ({}, {"interfaces": ("ib0",)}, ["ipoib_absent"]),
        (ib0(mtu="2044"), {"interfaces": ("ib0",), "mtu": 4092}, ["ipoib_setting", "ok"]),
        (ib0(mode="connected"), {"interfaces": ("ib0",), "mode": "datagram"}, ["ipoib_setting", "ok"]),
        (ib0(kind="1"), {"interfaces": ("ib0",)}, ["ipoib_setting", "ok"]),
        (ib0(), {"interfaces": ("../x",)}, ["check_error"]),
    ],
)
def test_judges_what_is_named(
    plant: Plant, tree: dict[str, str | bytes], options: dict[str, object], expected: list[str]
) -> None:
    found = run_check(load()["ipoib"], plant(tree), options).findings
    assert [f.code for f in found] == expected
    assert "fail" not in {f.status for f in found}


@pytest.mark.parametrize("state", ["", "garbage", "-1"])
def test_a_state_that_nobody_knows_is_our_trouble(plant: Plant, state: str) -> None:
    """Like E76: a file cut short says nothing about the interface."""
    host = plant({"/sys/class/net/ib0/operstate": f"{state}\n", "/sys/class/net/ib0/type": "32\n"})
    (found,) = run_check(load()["ipoib"], host, {"interfaces": ("ib0",)}).findings
    assert (found.status, found.blame) == ("unknown", "self")
