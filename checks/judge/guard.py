"""The guard's arithmetic: how many nodes automation may take out, per cluster, group, rule and time."""

from __future__ import annotations

import math
from collections import Counter
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

    ``group_share``, ``group_least``: nodes of one group out of service by us at one time. ``whole_share``: the part of
    the blocks (NVL72 and its like) that must stay whole, since jobs ask for whole segments; a block is whole while
    ``block_size`` of its nodes serve, all of them where that is 0 and Slurm names no size. ``rollout_least``,
    ``rollout_chance``: so many nodes that show one code and share one driver, where chance would have put them all on
    that driver less often than this, are an incident of the driver.
    """

    drained_share: float = 0.10
    drained_least: int = 2
    hourly_share: float = 0.05
    hourly_least: int = 3
    alike_share: float = 0.05
    alike_least: int = 2
    alike_seconds: float = 600.0
    floor_share: float = 0.25
    group_share: float = 0.25
    group_least: int = 2
    whole_share: float = 0.5
    block_size: int = 0
    rollout_least: int = 3
    rollout_chance: float = 0.01

    def drained(self, nodes: int) -> int:
        """How many of ``nodes`` may be out of service by us at once."""
        return max(self.drained_least, math.floor(nodes * self.drained_share))

    def hourly(self, nodes: int) -> int:
        """How many automatic drains an hour may see."""
        return max(self.hourly_least, math.floor(nodes * self.hourly_share))

    def alike(self, nodes: int) -> int:
        """How many nodes may show one code inside the window before it stops being theirs."""
        return max(self.alike_least, math.floor(nodes * self.alike_share))

    def group(self, nodes: int) -> int:
        """How many of a group of ``nodes`` may be out of service by us at once."""
        return max(self.group_least, math.floor(nodes * self.group_share))

    def whole(self, blocks: int) -> int:
        """How many blocks must stay whole; of a single one none."""
        return min(max(blocks - 1, 0), math.ceil(blocks * self.whole_share))

    def floor(self, nodes: int) -> int:
        """How many of a group must stay in service; a group of one node has no floor."""
        return min(max(nodes - 1, 0), math.ceil(nodes * self.floor_share))


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node as the guard sees it: whether jobs can start there, whether we took it out, its groups and driver."""

    in_service: bool
    ours: bool = False
    groups: tuple[str, ...] = ()
    driver: str = ""


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
    ``promised``: nodes for which a permit or lease is out but no drain has been seen yet. ``block_size``: as Slurm
    names it. ``overridden``: codes for which a person lifted everything but the floors, the empty code for all.
    """

    now: datetime
    nodes: Mapping[str, NodeView]
    past: Sequence[PastDrain] = ()
    failing: Mapping[str, Mapping[str, datetime]] = field(default_factory=dict)
    promised: frozenset[str] = frozenset()
    block_size: int = 0
    overridden: frozenset[str] = frozenset()


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
        self._promised = set(fleet.promised)
        self._members: Counter[str] = Counter()
        self._serving: Counter[str] = Counter()
        self._ours: Counter[str] = Counter()
        self._drivers = Counter(v.driver for v in fleet.nodes.values() if v.driver)
        for name, view in fleet.nodes.items():
            serves = view.in_service and name not in fleet.promised
            for group in ("", *view.groups):
                self._members[group] += 1
                self._serving[group] += serves
                self._ours[group] += name in self._out

    def promise(self, node: str) -> None:
        """Count one node more as promised."""
        view = self._fleet.nodes[node]
        for group in ("", *view.groups):
            self._serving[group] -= view.in_service and node not in self._promised
            self._ours[group] += node not in self._out
        for names in (self._out, self._recent, self._promised):
            names.add(node)

    def authorize(self, node: str, code: str) -> Ruling:
        """Whether automation may take ``node`` out of service for ``code`` now."""
        view = self._fleet.nodes.get(node)
        if view is None:
            return Ruling(False, "unknown_node", f"slurm knows no node {node}")
        if floor := self._floors(node, view) or self._blocks(node, view):
            return floor
        if self._fleet.overridden & {code, ""}:
            return Ruling(True, "allowed", "a person lifted the ceilings")
        alike = self._alike(node, code) or self._rollout(node, code)
        return alike or self._ceilings(node) or self._groups(node, view) or Ruling(True, "allowed")

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

    def _rollout(self, node: str, code: str) -> Ruling | None:
        """Whether the code is seen on one driver only, on more nodes than chance puts there."""
        shown = {n for n in self._fleet.failing.get(code, {}) if n in self._fleet.nodes} | {node}
        drivers = {self._fleet.nodes[n].driver for n in shown}
        if len(shown) < self._limits.rollout_least or len(drivers) != 1 or "" in drivers:
            return None
        (driver,) = drivers
        share = self._drivers[driver] / sum(self._drivers.values())
        if share ** len(shown) >= self._limits.rollout_chance:
            return None
        why = f"{len(shown)} nodes show {code}, all with driver {driver}, which {share:.0%} of the nodes have"
        return Ruling(False, "correlated", f"{why}, and none with another")

    def _groups(self, node: str, view: NodeView) -> Ruling | None:
        """How much of each of the node's groups is out by us already."""
        for group in view.groups:
            out, limit = self._ours[group], self._limits.group(self._members[group])
            if out + (node not in self._out) > limit:
                why = f"{out} of {self._members[group]} nodes of {group} are out of service by us, at most {limit}"
                return Ruling(False, "ceiling", why)
        return None

    def _blocks(self, node: str, view: NodeView) -> Ruling | None:
        """How many whole blocks would be left, where the node is one that its block needs."""
        serves = view.in_service and node not in self._promised
        for block in (g for g in view.groups if g.startswith("block:")):
            if not serves or not self._whole(block) or self._whole(block, without=1):
                continue
            blocks = [g for g in self._members if g.startswith("block:")]
            left, need = sum(map(self._whole, blocks)) - 1, self._limits.whole(len(blocks))
            if left < need:
                why = f"{left} of {len(blocks)} blocks would stay whole without a node of {block}, floor {need}"
                return Ruling(False, "floor", why)
        return None

    def _whole(self, block: str, *, without: int = 0) -> bool:
        size = self._limits.block_size or self._fleet.block_size or self._members[block]
        return self._serving[block] - without >= min(size, self._members[block])

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
        serves = view.in_service and node not in self._promised
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
