"""A profile says what a node of its kind must have, and the kind is told from PCI."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.profile import ProfileError, match_profile, profiles, read_profile, typed_options
from tests.fakes import Plant, pci_tree


def adapters(count: int, device: str = "0x1021") -> dict[str, str | bytes]:
    tree: dict[str, str | bytes] = {}
    for number in range(count):
        base = f"/sys/bus/pci/devices/0001:{number:02x}:00.0"
        tree |= {f"{base}/vendor": "0x15b3\n", f"{base}/device": f"{device}\n", f"{base}/class": "0x020700\n"}
    return tree


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (pci_tree() | adapters(8), "hgx-h100"),
        (pci_tree(7) | adapters(7), "hgx-h100"),
        (pci_tree(8, dead=[0]) | adapters(8), "hgx-h100"),
        (pci_tree() | adapters(2), "hgx-h100-board"),
        (pci_tree() | adapters(8, "0x101e"), "hgx-h100-board"),
        (pci_tree(1, switches=0), "generic"),
        ({}, "generic"),
    ],
)
def test_the_kind_is_told_by_what_is_plugged_in(plant: Plant, tree: dict[str, str | bytes], expected: str) -> None:
    """E44, E85: a node that lost a part is still of its kind; unknown hardware is generic."""
    assert match_profile(plant(tree), profiles()).name == expected


@pytest.mark.parametrize("name", sorted(n for n in profiles() if n != "generic"))
def test_a_profile_with_gpus_promises_their_number(name: str) -> None:
    """Rule 4: the expectation is the profile's."""
    checks = profiles()[name].checks
    assert checks["gpu_count"]["expected"] == checks["gpu_driver"]["expected"] == 8
    assert checks["gpu_nvlink"]["links"] in (12, 18)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('name = "x"\n[checks.gpu_cont]\nexpected = 8\n', "did you mean 'gpu_count'"),
        ('name = "x"\n[checks.gpu_count]\nexpcted = 8\n', "did you mean 'expected'"),
        ('name = "x"\n[checks.gpu_count]\nexpected = "eight"\n', "setting expected"),
        ('name = "x"\ncheck = 3\n', "unknown field"),
        ("name = ", "site.toml"),
    ],
)
def test_a_wrong_key_names_the_nearest(text: str, hint: str) -> None:
    with pytest.raises(ProfileError, match=hint):
        read_profile(text, "site.toml")


def test_a_site_profile_lies_over_a_shipped_one(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text('name = "hgx-h100"\n[checks.gpu_count]\nexpected = 4\n')
    assert profiles(tmp_path)["hgx-h100"].checks == {"gpu_count": {"expected": 4}}


def test_lists_become_tuples() -> None:
    assert typed_options("mount", {"paths": ["/home"]}, where="here") == {"paths": ("/home",)}
