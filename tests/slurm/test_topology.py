"""Trees and blocks come down to groups of nodes; anything else is no group and no failure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm.topology import Topology, parse_topology

TREE = """\
SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[3-4]
SwitchName=core Level=1 LinkSpeed=1 Nodes=n[1-4] Switches=s[0-1]
"""
BLOCK = "BlockName=b1 BlockIndex=0 Nodes=g[01-02] BlockSize=2\nBlockName=b2 BlockIndex=1 Nodes=g[03-04] BlockSize=2\n"


def test_a_tree() -> None:
    found = parse_topology(TREE)
    assert found.groups["n2"] == ("switch:s0", "switch:core") and found.groups["n3"] == ("switch:s1", "switch:core")
    assert found.block_size == 0


def test_blocks_and_their_size() -> None:
    found = parse_topology(BLOCK)
    assert found.groups == {f"g0{i}": (f"block:b{(i + 1) // 2}",) for i in range(1, 5)} and found.block_size == 2


def test_blocks_of_a_release_that_names_no_size_and_of_several_sizes() -> None:
    assert parse_topology(BLOCK.replace(" BlockSize=2", "")).block_size == 0
    assert parse_topology(BLOCK + "BlockName=b3 BlockIndex=2 Nodes=g05 BlockSize=1").block_size == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No topology information available",
        "TopologyName=x Ring=r1 Nodes=n[1-4]",
        "SwitchName=s0 Level=0 Nodes=n[1-",
        "SwitchName= Level=0 Nodes=n1",
        "SwitchName=s0 Level=1 Switches=s[1-2]",
        "BlockName=b1 Nodes=n[1-99999999]",
    ],
)
def test_what_is_not_understood_is_no_group(text: str) -> None:
    assert parse_topology(text) == Topology()


@given(st.text(max_size=300))
def test_no_text_makes_it_fail(text: str) -> None:
    parse_topology(text)
    parse_topology(f"SwitchName=s {text}\nBlockName={text} Nodes={text} BlockSize={text}")
