"""Firmware is compared over adapters of one board only, and with what the profile names."""

from __future__ import annotations

import pytest

from checks.catalog import load
from checks.net.rdma_firmware import rdma_firmware
from checks.runner import run_check
from tests.checks.net.test_ib_port import hcas
from tests.fakes import Plant

PSID = "MT_0000000838"


def boards(*found: tuple[str, str]) -> dict[str, str | bytes]:
    tree: dict[str, str | bytes] = dict(hcas(len(found)))
    for number, (board, version) in enumerate(found):
        base = f"/sys/class/infiniband/mlx5_{number}"
        tree |= {f"{base}/board_id": f"{board}\n", f"{base}/fw_ver": f"{version}\n"}
    return tree


NEW, OLD = (PSID, "28.43.2026"), (PSID, "28.39.1002")


@pytest.mark.parametrize(
    ("found", "versions", "expected"),
    [
        ((NEW, NEW), (), [(PSID, "ok")]),
        ((NEW, OLD), (), [(PSID, "rdma_firmware_differs")]),
        ((NEW, ("MT_0000000359", "20.1")), (), [("MT_0000000359", "ok"), (PSID, "ok")]),
        ((NEW, OLD), (f"{PSID}=28.43.2026",), [("mlx5_1", "rdma_firmware_other")]),
        ((OLD, OLD), (f"{PSID}=28.43.2026",), [("mlx5_0", "rdma_firmware_other"), ("mlx5_1", "rdma_firmware_other")]),
        ((NEW, NEW), ("OTHER=1",), [(PSID, "ok")]),
    ],
)
def test_firmware_of_a_node(
    plant: Plant, found: tuple[tuple[str, str], ...], versions: tuple[str, ...], expected: list[tuple[str, str]]
) -> None:
    seen = [f for f in rdma_firmware(plant(boards(*found)), versions=versions)]
    bad = [(f.target, f.code) for f in seen if f.status != "ok"]
    assert bad == [e for e in expected if e[1] != "ok"]
    assert [f.target for f in seen if f.status == "ok"] == [t for t, c in expected if c == "ok"] or bad
    assert {f.blame for f in seen if f.status != "ok"} <= {"config"}


@pytest.mark.parametrize("tree", [{}, hcas(2), boards(("", "1.2"), (PSID, "0.0.0.0"))])
def test_adapters_that_tell_nothing_are_skipped(plant: Plant, tree: dict[str, str | bytes]) -> None:
    """E76, E82: irdma and EFA have no board id or no version."""
    assert [f.status for f in run_check(load()["rdma_firmware"], plant(tree)).findings] == ["skipped"]


def test_what_is_ignored_or_virtual_is_left_out(plant: Plant) -> None:
    """E81."""
    tree = boards(NEW, OLD, OLD) | {"/sys/class/infiniband/mlx5_2/device/physfn/vendor": "0x15b3"}
    assert [f.code for f in rdma_firmware(plant(tree), ignore=("mlx5_1",))] == ["ok"]


@pytest.mark.parametrize("text", ["28.43", "=28.43", "MT_1=", ""])
def test_a_wrong_setting_is_our_own_trouble(plant: Plant, text: str) -> None:
    (found,) = run_check(load()["rdma_firmware"], plant(boards(NEW)), {"versions": (text,)}).findings
    assert (found.status, found.blame) == ("unknown", "self")
