"""Trees and blocks come down to groups of nodes; anything else is no group and no failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.judge.guard import Fleet, GuardLimits, NodeView, Tally
from slurm.commands import Commands
from slurm.run import Ended
from slurm.topology import Topology, merged, parse_topology, partition_topologies
from tests.slurm.recorded import text

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


def test_recorded_trees_and_blocks() -> None:
    """Real answers; the aggregated block and the switch above others are no place where nodes share hardware alone."""
    for release in ("24.11", "26.05"):
        tree = parse_topology(text(release, "cmd/show-topology-tree.txt"))
        assert tree.groups["n1"] == ("switch:s0", "switch:top") and tree.block_size == 0
        block = parse_topology(text(release, "cmd/show-topology-block.txt"))
        assert block.groups["n8"] == ("block:b2",) and block.block_size == 4


def test_several_topologies_at_once() -> None:
    """25.05 and later: the default is told unasked, others by the name that a partition gives."""
    asked = []

    def run(argv: Sequence[str], *, env: Mapping[str, str], timeout: float, step: str) -> Ended:
        asked.append(" ".join(argv))
        words = [word for word in argv[1:] if word != "--all"]
        if words == ["--version"]:
            return Ended(0, b"slurm-wlm 26.05.5", b"")
        return Ended(0, text("26.05", f"cmd/{'-'.join(words)}.txt").encode(), b"")

    found = Commands(run).topology()
    assert found.groups["n1"] == ("switch:top", "switch:s0", "block:b1")
    assert found.groups["n8"] == ("switch:top", "switch:s1", "block:b2")
    assert found.block_size == 4
    assert len(asked) == 4


def test_topologies_of_several_block_sizes_have_no_one_size() -> None:
    one, other = Topology({"n1": ("block:a",)}, 18), Topology({"n1": ("block:b",)}, 4)
    assert merged([one, other]) == Topology({"n1": ("block:a", "block:b")}, 0)
    assert merged([one, Topology()]) == one
    assert partition_topologies("   Topology=a\n  Topology=b\n Topology=a\nTopology=c\n Topology=x y\n") == ("a", "b")


def test_the_guard_keeps_whole_nvl72_segments() -> None:
    """DESIGN rule 7: of four segments of 18 nodes two stay whole, whatever else the limits allow."""
    told = "".join(f"BlockName=b{b} BlockIndex={b} Nodes=g[{b}01-{b}18] BlockSize=18\n" for b in range(1, 5))
    topology = parse_topology(told)
    nodes = {name: NodeView(True, groups=groups) for name, groups in topology.groups.items()}
    limits = GuardLimits(drained_share=1.0, hourly_share=1.0, alike_share=1.0, floor_share=0.0, group_share=1.0)
    tally = Tally(Fleet(datetime.now(timezone.utc), nodes, block_size=topology.block_size), limits)
    out = set()
    for name in sorted(nodes, key=lambda name: name[2:]):  # one of each segment in turn
        if (ruling := tally.authorize(name, "a")).allowed:
            tally.promise(name)
            out.add(name[1])
        else:
            assert "blocks would stay whole" in ruling.why
    assert out == {"1", "2"}


def test_blocks_of_a_release_that_names_no_size_and_of_several_sizes() -> None:
    assert parse_topology(BLOCK.replace(" BlockSize=2", "")).block_size == 0
    assert parse_topology(BLOCK + "BlockName=b3 BlockIndex=2 Nodes=g05 BlockSize=1").block_size == 0


@pytest.mark.parametrize(
    "told",
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
def test_what_is_not_understood_is_no_group(told: str) -> None:
    assert parse_topology(told) == Topology()


@given(st.text(max_size=300))
def test_no_text_makes_it_fail(told: str) -> None:
    parse_topology(told)
    parse_topology(f"SwitchName=s {told}\nBlockName={told} Nodes={told} BlockSize={told}")
