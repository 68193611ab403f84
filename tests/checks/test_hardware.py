"""The reference figures are whole, plausible and speak of the same hardware as the profiles."""

from __future__ import annotations

import pytest

from checks.hardware import Accelerator, tables
from checks.profile import profiles

KNOWN = tables().accelerator


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_figures_are_plausible(name: str) -> None:
    found: Accelerator = KNOWN[name]
    assert 8 <= found.memory_gb <= 1000 and 0.1 <= found.bandwidth_tb_s <= 30
    assert found.rates and found.pci
    for kind, rate in found.rates.items():
        assert rate.peak is not None, kind
        # Nobody reaches the data sheet, and half of it is the least that was seen of a mature library.
        assert rate.reached is None or 0.5 * rate.peak <= rate.reached < rate.peak, kind
    assert bool(found.links) == bool(found.link_gb_s)


def test_every_board_of_a_profile_has_figures() -> None:
    ids = {pci for found in KNOWN.values() for pci in found.pci}
    switches = {"10de:22a3", "10de:1af1"}
    named = {pci for p in profiles().values() for pci in p.match.pci if pci.startswith("10de:")}
    assert named - switches <= ids


def test_links_agree_with_the_profiles() -> None:
    """Two tables of one fact may not differ."""
    links = {pci: found.links for found in KNOWN.values() for pci in found.pci}
    for profile in profiles().values():
        if wanted := profile.checks.get("gpu_nvlink", {}).get("links"):
            assert {links[pci] for pci in profile.match.pci if pci in links} == {wanted}, profile.name


def test_no_pci_id_names_two_models() -> None:
    ids = [pci for found in KNOWN.values() for pci in found.pci]
    assert len(ids) == len(set(ids))
