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


def test_shapes_and_figures_speak_of_known_models() -> None:
    found = tables()
    assert {n.accelerator for n in found.node.values()} <= set(KNOWN)
    assert {c.accelerator for c in found.collective.values()} <= set(KNOWN)
    assert {f.accelerator for f in found.floor.values()} <= {*KNOWN, ""}
    assert all(e.source for part in (found.node, found.collective, found.floor) for e in part.values())


def test_figures_of_one_node_agree_with_those_of_its_model() -> None:
    """Two tables of one fact may not differ; with NVLS the bus figure may exceed the wire."""
    for c in tables().collective.values():
        model = KNOWN[c.accelerator]
        if c.nodes == 1 and c.gpus == 8 and c.gib == 16:
            assert model.allreduce_gb_s[c.algorithm] == c.busbw_gb_s
        assert c.algorithm != "ring" or c.busbw_gb_s < model.link_gb_s


def test_a_limit_of_dcgm_that_cannot_be_meant_is_marked() -> None:
    """Some entries of its table are typing slips: a limit far below what the model has proves nothing."""
    for name, found in KNOWN.items():
        if found.dcgm is not None:
            share = found.dcgm.bandwidth_mb_s / 1e6 / found.bandwidth_tb_s
            assert share < 1 and (share > 0.25 or found.dcgm.doubt), (name, share)


def test_a_floor_that_nobody_passes_is_marked() -> None:
    best = {c.accelerator: c.busbw_gb_s for c in tables().collective.values() if c.nodes == 1 and c.gib == 16}
    for key, f in tables().floor.items():
        if f.what == "all-reduce busbw" and f.nodes == 1 and f.accelerator in best:
            assert f.value <= best[f.accelerator] or f.doubt, key


SOLD = [
    "h100-sxm",
    "h200-sxm",
    "b200",
    "b300",
    "gb200",
    "gb300",
    "a100-sxm-80gb",
    "l40s",
    "l4",
    "a10",
    "t4",
    "h100-pcie",
]


@pytest.mark.parametrize("model", SOLD)
def test_every_board_that_is_sold_for_clusters_is_there(model: str) -> None:
    found = KNOWN[model]
    assert found.rates and found.memory_gb and (found.dcgm is not None or model in {"a10", "h100-pcie"})
