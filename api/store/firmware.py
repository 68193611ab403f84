"""Which versions the nodes of one kind run, and which nodes differ from most of their like."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec
from sqlalchemy import Connection, select

from api.store.status import facts_of
from api.store.tables import node_status
from checks.wire import NodeFacts

ENOUGH = 3
"""Nodes that must tell a version before most of them can be spoken of."""
VERSIONS_LIMIT = 64
VALUE_LIMIT = 128


class OddView(msgspec.Struct, frozen=True, kw_only=True):
    """A node that differs, or one of its parts: ``slot`` is empty for what the whole node runs."""

    node: str
    version: str
    slot: str = ""


class FirmwareView(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of software or firmware among the nodes of one profile.

    ``versions``: how many nodes run each, the most frequent first. ``usual`` is what more than half of them run, None
    where no version is that frequent or fewer than three nodes tell; ``odd`` are those that run another.
    """

    cluster: str
    profile: str
    kind: str
    model: str
    nodes: int
    versions: dict[str, int]
    usual: str | None
    odd: list[OddView]


@dataclass(frozen=True, slots=True)
class _Said:
    """One version as one node told it."""

    node: str
    slot: str
    version: str


def compared(connection: Connection, cluster: str | None = None, profile: str | None = None) -> list[FirmwareView]:
    """Every kind of every profile: those where a node differs come first."""
    query = select(node_status.c.cluster, node_status.c.node, node_status.c.facts)
    if cluster is not None:
        query = query.where(node_status.c.cluster == cluster)
    groups: dict[tuple[str, str, str, str], list[_Said]] = defaultdict(list)
    for row in connection.execute(query.order_by(node_status.c.cluster, node_status.c.node)):
        facts = facts_of(row.facts)
        if facts is None or (profile is not None and facts.profile != profile):
            continue
        for kind, model, said in _told(row.node, facts):
            groups[row.cluster, facts.profile, kind, model].append(said)
    views = [_view(key, said) for key, said in groups.items()]
    return sorted(views, key=lambda v: (not v.odd, v.cluster, v.profile, v.kind, v.model))


def _told(node: str, facts: NodeFacts) -> Iterator[tuple[str, str, _Said]]:
    """What one node says of its versions; what it does not tell is not compared."""
    for kind, version in (("driver", facts.driver), ("kernel", facts.kernel), ("agent", facts.agent_version)):
        if version:
            yield kind, "", _Said(node, "", version[:VALUE_LIMIT])
    for part in facts.parts:
        if part.firmware:
            yield part.kind, part.model[:VALUE_LIMIT], _Said(node, part.slot, part.firmware[:VALUE_LIMIT])


def _view(key: tuple[str, str, str, str], said: Iterable[_Said]) -> FirmwareView:
    cluster, profile, kind, model = key
    told = list(said)
    of_node: dict[str, set[str]] = defaultdict(set)
    for one in told:
        of_node[one.node].add(one.version)
    counted = Counter(version for versions in of_node.values() for version in versions)
    frequent = counted.most_common(VERSIONS_LIMIT)
    usual = next((v for v, n in frequent if 2 * n > len(of_node) and len(of_node) >= ENOUGH), None)
    odd = [OddView(node=s.node, version=s.version, slot=s.slot) for s in told if usual and s.version != usual]
    return FirmwareView(
        cluster=cluster,
        profile=profile,
        kind=kind,
        model=model,
        nodes=len(of_node),
        versions=dict(frequent),
        usual=usual,
        odd=odd,
    )
