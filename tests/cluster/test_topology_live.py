"""A real slurmctld tells which nodes share a switch and a block, also to a client without its topology file."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

import pytest

from checks.judge.guard import Fleet, GuardLimits, NodeView, Tally
from deploy.simcluster import lab_ground, processes
from deploy.simcluster.slurm_lab import SlurmLab
from slurm.commands import MANY_TOPOLOGIES, Commands
from slurm.config import parse_version

pytestmark = pytest.mark.cluster

BLOCKS = (23, 11, 0)
TREE = "SwitchName=s0 Nodes=n[1-4]\nSwitchName=s1 Nodes=n[5-8]\nSwitchName=top Switches=s[0-1]\n"
BLOCK = "BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockSizes=4,8\n"
BOTH = """\
---
- topology: fabric
  cluster_default: true
  tree:
    switches:
      - {switch: top, children: "s[0-1]"}
      - {switch: s0, nodes: "n[1-4]"}
      - {switch: s1, nodes: "n[5-8]"}
- topology: nvl
  cluster_default: false
  block:
    block_sizes: [4, 8]
    blocks:
      - {block: b1, nodes: "n[1-4]"}
      - {block: b2, nodes: "n[5-8]"}
"""
PARTITIONS = "PartitionName=main Nodes=ALL Default=YES State=UP\n"


@pytest.fixture(scope="module")
def version() -> tuple[int, int, int]:
    if reason := lab_ground.cannot_run():
        pytest.skip(reason)
    told = subprocess.run(["slurmctld", "-V"], env={"PATH": processes.PATH}, capture_output=True, text=True, timeout=30)
    found = parse_version(told.stdout)
    assert found is not None, told
    return found


@pytest.fixture(scope="module")
def lab(version: tuple[int, int, int]) -> Iterator[SlurmLab]:
    """Eight nodes in what their release has: a tree, blocks, or both at once."""
    base = lab_ground.short_base()
    (base / "etc").mkdir()
    if version >= MANY_TOPOLOGIES:
        extra = f"{PARTITIONS}PartitionName=nvl Nodes=ALL Topology=nvl State=UP\n"
        (base / "etc/topology.yaml").write_text(BOTH)
    else:
        kind = "block" if version >= BLOCKS else "tree"
        extra = f"TopologyPlugin=topology/{kind}\n"
        (base / "etc/topology.conf").write_text(BLOCK if kind == "block" else TREE)
    with SlurmLab(base, 8, gpus=0, extra_conf=extra) as running:
        yield running
    shutil.rmtree(base)


def expected(version: tuple[int, int, int]) -> tuple[set[str], int]:
    """The groups of n1 and the size of a block."""
    tree, block = {"switch:s0", "switch:top"}, {"block:b1"}
    if version >= MANY_TOPOLOGIES:
        return tree | block, 4
    return (block, 4) if version >= BLOCKS else (tree, 0)


def test_groups_of_a_real_topology(lab: SlurmLab, version: tuple[int, int, int], tmp_path: Path) -> None:
    groups, size = expected(version)
    found = Commands(conf=lab.conf).topology()
    assert set(found.groups) == set(lab.names)
    assert (set(found.groups["n1"]), found.block_size) == (groups, size)
    assert not set(found.groups["n5"]) & (groups - {"switch:top"})
    # What a configless machine is handed. topology.conf is not needed for it: slurmctld is asked. From 25.05 on
    # scontrol learns from topology.yaml beside its slurm.conf what there is to ask for, and says nothing without it.
    for name in ("slurm.conf", "topology.yaml"):
        if (given := lab.conf.parent / name).exists():
            (tmp_path / name).write_text(given.read_text())
    assert Commands(conf=tmp_path / "slurm.conf").topology() == found


def test_the_guard_keeps_whole_switches_and_blocks(lab: SlurmLab, version: tuple[int, int, int]) -> None:
    """DESIGN rule 7: no group of nodes that share a switch or a block loses more than its part."""
    topology = Commands(conf=lab.conf).topology()
    nodes = {
        name: NodeView(True, groups=tuple(g for g in topology.groups[name] if g != "switch:top")) for name in lab.names
    }
    limits = GuardLimits(
        drained_share=1.0, hourly_share=1.0, alike_share=1.0, floor_share=0.5, group_share=1.0, whole_share=0.5
    )
    tally = Tally(Fleet(datetime.now(timezone.utc), nodes, block_size=topology.block_size), limits)
    out = []
    for name in lab.names:
        if tally.authorize(name, "a").allowed:
            tally.promise(name)
            out.append(name)
    if version >= BLOCKS:
        assert out == ["n1", "n2"], "one of two blocks stays whole, the other keeps its floor"
    else:
        assert out == ["n1", "n2", "n5", "n6"], "two of the four behind each switch stay"
