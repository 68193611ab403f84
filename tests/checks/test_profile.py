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


GUEST = {"/proc/cpuinfo": "processor\t: 0\nflags\t\t: fpu vme sse2 hypervisor lahf_lm\n"}


@pytest.mark.parametrize(
    ("count", "more", "expected"),
    [(4, GUEST, "generic"), (7, GUEST, "hgx-b200"), (8, GUEST, "hgx-b200"), (4, {}, "hgx-b200")],
)
def test_a_virtual_machine_with_half_a_board_is_no_node_that_lost_the_other_half(
    plant: Plant, count: int, more: dict[str, str | bytes], expected: str
) -> None:
    """Like E44: a cloud gives 4 of the 8 GPUs of a board, and none of them is missing."""
    assert match_profile(plant(gpus("0x2901", count) | more), profiles()).name == expected


def gpus(device: str, count: int) -> dict[str, str | bytes]:
    return {k.replace("0001:", "0002:"): v for k, v in adapters(count, device).items()} | {
        f"/sys/bus/pci/devices/0002:{n:02x}:00.0/{name}": text
        for n in range(count)
        for name, text in (("vendor", "0x10de\n"), ("class", "0x030200\n"))
    }


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        (gpus("0x3182", 8), "hgx-b300"),
        (gpus("0x2941", 4), "gb200-nvl72"),
        (gpus("0x2941", 3), "gb200-nvl72"),
        (gpus("0x31c2", 4), "gb300-nvl72"),
        (gpus("0x26b9", 4), "l40s"),
        (gpus("0x27b8", 1), "l4"),
        (gpus("0x1eb8", 1), "t4"),
        (gpus("0x2237", 4), "a10g"),
        (gpus("0x2236", 2), "a10"),
        (gpus("0x20b7", 2), "a30"),
        (gpus("0x2235", 8), "a40"),
        (gpus("0x26b5", 8), "l40"),
        (gpus("0x233b", 4), "h200-nvl"),
        (gpus("0x2342", 1), "gh200"),
        (gpus("0x2331", 2), "h100-pcie"),
        (adapters(1, "0x1021") | gpus("0x2901", 8), "hgx-b200"),
    ],
)
def test_boards_and_cards_are_told_apart(plant: Plant, tree: dict[str, str | bytes], expected: str) -> None:
    assert match_profile(plant(tree), profiles()).name == expected


def test_a_card_beside_a_board_does_not_hide_it(plant: Plant) -> None:
    """Both are told by one id; the board asks for more of it."""
    display = {k.replace("0002:", "0003:"): v for k, v in gpus("0x1eb8", 1).items()}
    assert match_profile(plant(gpus("0x2901", 8) | display), profiles()).name == "hgx-b200"


BOARDS = sorted(n for n, p in profiles().items() if max(p.match.pci.values(), default=0) > 1)


@pytest.mark.parametrize("name", BOARDS)
def test_a_profile_of_a_board_promises_its_number_of_gpus(name: str) -> None:
    """Rule 4: the expectation is the profile's."""
    found = profiles()[name]
    expected = max(count for pci, count in found.match.pci.items() if pci.startswith("10de:"))
    assert found.checks["gpu_count"]["expected"] == found.checks["gpu_driver"]["expected"] == expected
    assert found.checks["gpu_nvlink"]["links"] in (12, 18)


@pytest.mark.parametrize("name", sorted(set(profiles()) - set(BOARDS)))
def test_a_profile_of_cards_guesses_no_number(name: str) -> None:
    assert "gpu_count" not in profiles()[name].checks


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
