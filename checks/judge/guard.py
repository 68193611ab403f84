"""The guard's arithmetic: how many nodes automation may take out, per cluster, group, rule and time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

Kind = Literal["allowed", "ceiling", "floor", "rate", "correlated", "unknown_node"]


@dataclass(frozen=True, slots=True)
class GuardLimits:
    """Limits on automation; a share and a least number each, the larger counts.

    ``drained``: nodes out of service by us at one time. ``hourly``: automatic drains in one hour. ``alike``: nodes
    with one code inside ``alike_seconds``; more than that is an incident of the check, a service or a roll-out,
    not of the nodes. ``floor_share``: what must stay in service in the cluster and in each group (partition, rack,
    switch). The numbers are deliberate starting points: a fleet loses well under 1 % of its nodes a day to hardware
    (Llama 3 training report: 419 interruptions of 16,384 GPUs in 54 days), so 5-10 % at once is not hardware.
    """

    drained_share: float = 0.10
    drained_least: int = 2
    hourly_share: float = 0.05
    hourly_least: int = 3
    alike_share: float = 0.05
    alike_least: int = 2
    alike_seconds: float = 600.0
    floor_share: float = 0.25

    def drained(self, nodes: int) -> int:
        """How many of ``nodes`` may be out of service by us at once."""
        return max(self.drained_least, math.floor(nodes * self.drained_share))

    def hourly(self, nodes: int) -> int:
        """How many automatic drains an hour may see."""
        return max(self.hourly_least, math.floor(nodes * self.hourly_share))

    def alike(self, nodes: int) -> int:
        """How many nodes may show one code inside the window before it stops being theirs."""
        return max(self.alike_least, math.floor(nodes * self.alike_share))

    def floor(self, nodes: int) -> int:
        """How many of a group must stay in service; a group of one node has no floor."""
        return min(max(nodes - 1, 0), math.ceil(nodes * self.floor_share))


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node as the guard sees it: whether jobs can start there, whether we took it out, its groups."""

    in_service: bool
    ours: bool = False
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PastDrain:
    """One automatic drain or outstanding permit."""

    node: str
    code: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Fleet:
    """What the guard counts over.

    ``failing``: per code the nodes that show it now, with the time each was first seen.
    ``promised``: nodes for which a permit or lease is out but no drain has been seen yet.
    """

    now: datetime
    nodes: Mapping[str, NodeView]
    past: Sequence[PastDrain] = ()
    failing: Mapping[str, Mapping[str, datetime]] = field(default_factory=dict)
    promised: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Ruling:
    """The guard's answer and the sentence that explains it to an operator."""

    allowed: bool
    kind: Kind
    why: str = ""


def authorize(node: str, code: str, fleet: Fleet, limits: GuardLimits) -> Ruling:
    """Whether automation may take ``node`` out of service for ``code`` now."""
    view = fleet.nodes.get(node)
    if view is None:
        return Ruling(False, "unknown_node", f"slurm knows no node {node}")
    for ruling in (
        _alike(node, code, fleet, limits),
        _ceilings(node, fleet, limits),
        _floors(node, view, fleet, limits),
    ):
        if ruling is not None:
            return ruling
    return Ruling(True, "allowed")


def _alike(node: str, code: str, fleet: Fleet, limits: GuardLimits) -> Ruling | None:
    """Nodes failing alike at one time, this one included, whether drained already or not."""
    since = fleet.now - timedelta(seconds=limits.alike_seconds)
    alike = {n for n, first in fleet.failing.get(code, {}).items() if first >= since}
    alike |= {p.node for p in fleet.past if p.code == code and p.at >= since}
    alike.add(node)
    limit = limits.alike(len(fleet.nodes))
    if len(alike) <= limit:
        return None
    window = f"{limits.alike_seconds / 60:g} min"
    return Ruling(
        False, "correlated", f"{len(alike)} nodes show {code} within {window}, at most {limit} can be hardware"
    )


def _ceilings(node: str, fleet: Fleet, limits: GuardLimits) -> Ruling | None:
    total = len(fleet.nodes)
    out = {n for n, v in fleet.nodes.items() if v.ours} | fleet.promised
    limit = limits.drained(total)
    if len(out | {node}) > limit:
        return Ruling(
            False, "ceiling", f"{len(out)} of {total} nodes are out of service by us already, at most {limit}"
        )
    hour = fleet.now - timedelta(hours=1)
    recent = {p.node for p in fleet.past if p.at >= hour} | fleet.promised
    if len(recent | {node}) > limits.hourly(total):
        return Ruling(False, "rate", f"{len(recent)} automatic drains in the last hour, at most {limits.hourly(total)}")
    return None


def _floors(node: str, view: NodeView, fleet: Fleet, limits: GuardLimits) -> Ruling | None:
    """What would be left in service, in the cluster and in each of the node's groups."""
    for group in ("", *view.groups):
        members = [n for n, v in fleet.nodes.items() if not group or group in v.groups]
        left = sum(1 for n in members if fleet.nodes[n].in_service and n != node and n not in fleet.promised)
        if left < limits.floor(len(members)):
            where = group or "the cluster"
            need = limits.floor(len(members))
            return Ruling(
                False, "floor", f"{left} of {len(members)} nodes of {where} would stay in service, floor {need}"
            )
    return None


def headroom(fleet: Fleet, limits: GuardLimits) -> int:
    """How many more nodes could be taken out before a ceiling is met: the number of leases that may be out."""
    total = len(fleet.nodes)
    out = {n for n, v in fleet.nodes.items() if v.ours} | fleet.promised
    hour = fleet.now - timedelta(hours=1)
    recent = {p.node for p in fleet.past if p.at >= hour} | fleet.promised
    serving = sum(1 for v in fleet.nodes.values() if v.in_service)
    return max(
        0,
        min(limits.drained(total) - len(out), limits.hourly(total) - len(recent), serving - limits.floor(total)),
    )
