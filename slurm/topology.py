"""Slurm's topology comes down to groups of nodes that share a switch or a block; what is not understood is no group.

The lines are those of ``scontrol show topology``: ``SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-8]`` of topology/tree,
``BlockName=b1 BlockIndex=0 Nodes=n[1-18] BlockSize=18`` of topology/block, whose size older releases leave out. No
release has a JSON form: ``--json`` is accepted and prints the same lines. From 25.05 on topology.yaml can hold several
topologies at once; the one question tells the cluster's default, each other is asked for by the name that a partition
gives, and scontrol says nothing at all unless topology.yaml lies beside its slurm.conf, as configless puts it there.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from slurm.hostlist import HostlistError, expand
from slurm.reason import one_line

LINES_LIMIT = 50_000
NAME_LIMIT = 64
NAMES_LIMIT = 8  # topologies beside the cluster's default one
_KINDS = {"SwitchName": "switch", "BlockName": "block"}


@dataclass(frozen=True, slots=True)
class Topology:
    """The groups of each node (``switch:s0``, ``block:b1``), and how many nodes make a block whole (0: not told)."""

    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    block_size: int = 0


def partition_topologies(text: str) -> tuple[str, ...]:
    """The topologies that partitions name in ``scontrol show partition``, each once."""
    found = re.findall(r"^ +Topology=([A-Za-z0-9][A-Za-z0-9._-]{0,63})$", text[: 1 << 24], re.MULTILINE)
    return tuple(dict.fromkeys(found))[:NAMES_LIMIT]


def merged(topologies: Iterable[Topology]) -> Topology:
    """The groups of all of them; a block size only where one alone names one."""
    groups: dict[str, tuple[str, ...]] = {}
    sizes: set[int] = set()
    for topology in topologies:
        sizes |= {topology.block_size} if topology.block_size else set()
        for name, those in topology.groups.items():
            groups[name] = tuple(dict.fromkeys((*groups.get(name, ()), *those)))
    return Topology(groups, sizes.pop() if len(sizes) == 1 else 0)


def parse_topology(text: str) -> Topology:
    """Read what ``scontrol show topology`` prints; a line that says no node or nothing known is passed over."""
    groups: dict[str, list[str]] = defaultdict(list)
    sizes: set[int] = set()
    for line in text.split("\n")[:LINES_LIMIT]:
        words = dict(word.split("=", 1) for word in line.split() if "=" in word)
        kind = next(iter(words), "")
        if kind not in _KINDS or not words[kind] or not words.get("Nodes"):
            continue
        try:
            names = expand(words["Nodes"])
        except HostlistError:
            continue
        for name in names:
            groups[name].append(f"{_KINDS[kind]}:{one_line(words[kind], NAME_LIMIT)}")
        if words.get("BlockSize", "").isascii() and words.get("BlockSize", "").isdigit():
            sizes.add(int(words["BlockSize"][:6]))
    # Blocks of several sizes have no one size: then all of a block's nodes are needed.
    return Topology({n: tuple(dict.fromkeys(g)) for n, g in groups.items()}, sizes.pop() if len(sizes) == 1 else 0)
