"""Profile and promised GPUs are found in files, and what cannot be read is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks import Host
from daemon.identify import look


def _host(root: Path, *ids: str) -> Host:
    for number, each in enumerate(ids):
        device = root / f"sys/bus/pci/devices/0000:{number:02x}:00.0"
        device.mkdir(parents=True)
        vendor, _, kind = each.partition(":")
        (device / "vendor").write_text(f"0x{vendor}\n")
        (device / "device").write_text(f"0x{kind}\n")
        (device / "class").write_text("0x030200\n")
    return Host(root=root)


@pytest.mark.parametrize(
    ("ids", "profile"), [((), "generic"), (("10de:2330", "10de:abcd"), "own"), (("10de:ffff",), "generic")]
)
def test_the_profile_that_fits(tmp_path: Path, ids: tuple[str, ...], profile: str) -> None:
    (tmp_path / "own.toml").write_text('name = "own"\n[match.pci]\n"10de:abcd" = 1\n')
    seen = look(_host(tmp_path, *ids), str(tmp_path), str(tmp_path / "none"), "n1")
    assert seen == {"profile": profile, "gres": None, "mig": (), "troubles": []}


@pytest.mark.parametrize(("node", "count"), [("n1", 4), ("n9", None)])
def test_what_gres_conf_promises(tmp_path: Path, node: str, count: int | None) -> None:
    conf = tmp_path / "gres.conf"
    conf.write_text("NodeName=n[1-2] Name=gpu Type=h100 File=/dev/nvidia[0-3]\n")
    seen = look(_host(tmp_path), str(tmp_path), str(conf), node)
    assert seen["gres"] == count
    assert seen["mig"] == (("0:", "1:", "2:", "3:") if count else ())


def test_troubles_are_told(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("name = 3")
    seen = look(_host(tmp_path), str(tmp_path), str(tmp_path), "n1")
    troubles = seen["troubles"]
    assert isinstance(troubles, list) and len(troubles) == 2 and seen["profile"] == "generic"
