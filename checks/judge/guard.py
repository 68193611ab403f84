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


class Tally:
    """The fleet counted once, for any number of questions about it."""

    def __init__(self, fleet: Fleet, limits: GuardLimits) -> None:
        self._fleet = fleet
        self._limits = limits
        hour = fleet.now - timedelta(hours=1)
        self._out = {n for n, v in fleet.nodes.items() if v.ours} | fleet.promised
        self._recent = {p.node for p in fleet.past if p.at >= hour} | fleet.promised
        self._members: dict[str, int] = {}
        self._serving: dict[str, int] = {}
        for name, view in fleet.nodes.items():
            serves = view.in_service and name not in fleet.promised
            for group in ("", *view.groups):
                self._members[group] = self._members.get(group, 0) + 1
                self._serving[group] = self._serving.get(group, 0) + serves

    def authorize(self, node: str, code: str) -> Ruling:
        """Whether automation may take ``node`` out of service for ``code`` now."""
        view = self._fleet.nodes.get(node)
        if view is None:
            return Ruling(False, "unknown_node", f"slurm knows no node {node}")
        return self._alike(node, code) or self._ceilings(node) or self._floors(node, view) or Ruling(True, "allowed")

    def _alike(self, node: str, code: str) -> Ruling | None:
        """The most nodes, this one included, that began to show the code within one window of time.

        Nodes that still serve count however old that is: waiting turns no roll-out into hardware.
        """
        fleet, limits = self._fleet, self._limits
        since = fleet.now - timedelta(seconds=limits.alike_seconds)
        failing = fleet.failing.get(code, {})
        began = {n: t for n, t in failing.items() if t >= since or ((v := fleet.nodes.get(n)) and v.in_service)}
        began |= {p.node: p.at for p in fleet.past if p.code == code and p.at >= since}
        began.setdefault(node, fleet.now)
        most = _most_within(sorted(began.values()), limits.alike_seconds)
        limit = limits.alike(len(fleet.nodes))
        if most <= limit:
            return None
        window = f"{limits.alike_seconds / 60:g} min"
        return Ruling(False, "correlated", f"{most} nodes show {code} within {window}, at most {limit} can be hardware")

    def _ceilings(self, node: str) -> Ruling | None:
        total, out, recent = len(self._fleet.nodes), self._out, self._recent
        limit = self._limits.drained(total)
        if len(out) + (node not in out) > limit:
            why = f"{len(out)} of {total} nodes are out of service by us already, at most {limit}"
            return Ruling(False, "ceiling", why)
        limit = self._limits.hourly(total)
        if len(recent) + (node not in recent) > limit:
            return Ruling(False, "rate", f"{len(recent)} automatic drains in the last hour, at most {limit}")
        return None

    def _floors(self, node: str, view: NodeView) -> Ruling | None:
        """What would be left in service, in the cluster and in each of the node's groups."""
        serves = view.in_service and node not in self._fleet.promised
        for group in ("", *view.groups):
            members, left = self._members[group], self._serving[group] - serves
            if left < (need := self._limits.floor(members)):
                where = group or "the cluster"
                why = f"{left} of {members} nodes of {where} would stay in service, floor {need}"
                return Ruling(False, "floor", why)
        return None

    def headroom(self) -> int:
        """How many more nodes could be taken out before a ceiling is met: the number of leases that may be out."""
        total = len(self._fleet.nodes)
        serving = sum(1 for v in self._fleet.nodes.values() if v.in_service)
        drained, hourly = self._limits.drained(total), self._limits.hourly(total)
        return max(0, min(drained - len(self._out), hourly - len(self._recent), serving - self._limits.floor(total)))


def _most_within(times: Sequence[datetime], seconds: float) -> int:
    """The most of ``times``, which are in order, that lie within one window."""
    most = first = 0
    for last, time in enumerate(times):
        while (time - times[first]).total_seconds() > seconds:
            first += 1
        most = max(most, last - first + 1)
    return most


def authorize(node: str, code: str, fleet: Fleet, limits: GuardLimits) -> Ruling:
    """Whether automation may take ``node`` out of service for ``code`` now."""
    return Tally(fleet, limits).authorize(node, code)


def headroom(fleet: Fleet, limits: GuardLimits) -> int:
    """How many more nodes could be taken out before a ceiling is met."""
    return Tally(fleet, limits).headroom()
