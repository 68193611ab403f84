"""A node is shown as worse than its peers only where chance would hardly make it look so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Connection, func, select

from api.controller.tables import drains
from api.store import exclusions, failures
from api.store.job_tables import attributions, starts
from api.store.starts import REFUSED
from api.store.status import facts_of
from api.store.tables import incidents, node_status
from api.store.views import Lemon, LemonsView
from checks.judge.peers import chance_of

# One fault is an incident, a refusal and a drain within minutes: that is one episode.
APART = timedelta(minutes=30)
LEAST_EPISODES = 3
LEAST_PEERS = 4
LEAST_PEER_STARTS = 100
# Of a whole fleet of sound nodes, one shows in 20 looks at most: each node's chance is multiplied by the nodes.
CHANCE = 0.05
SHOWN = 100
Key = tuple[str, str]


@dataclass(slots=True)
class _Past:
    """What happened on one node."""

    profile: str = ""
    starts: int = 0
    at: dict[str, list[datetime]] = field(default_factory=lambda: defaultdict(list))

    @property
    def episodes(self) -> int:
        """Troubles at least half an hour apart."""
        count, last = 0, None
        for moment in sorted(m for kind in self.at.values() for m in kind):
            if last is None or moment - last > APART:
                count += 1
            last = moment
        return count


def lemons(connection: Connection, since: datetime) -> LemonsView:
    """The nodes whose jobs met more troubles than those of their peers (same profile), the least likely first."""
    past = _read(connection, since)
    groups: dict[tuple[str, str], dict[Key, _Past]] = defaultdict(dict)
    for key, one in past.items():
        groups[(key[0], one.profile)][key] = one
    found = [lemon for group in groups.values() for lemon in _in_group(group)]
    found.sort(key=lambda lemon: (lemon.chance, -lemon.per_1000, lemon.node))
    started = sum(p.starts for p in past.values())
    why = "" if found else _why_none(groups.values(), started)
    return LemonsView(
        since=since,
        nodes=len(past),
        starts=started,
        items=tuple(found[:SHOWN]),
        why_none=why,
        failing=failures.failing(connection, since),
        excluded=exclusions.excluded(connection, since),
        not_told=tuple(failures.told(connection, since)),
    )


def _why_none(groups: Iterable[dict[Key, _Past]], started: int) -> str:
    if any(len(g) > LEAST_PEERS and sum(p.starts for p in g.values()) > LEAST_PEER_STARTS for g in groups):
        return "no node stands out from its peers by more than chance"
    return (
        f"too little data: {started} starts of jobs; a node needs {LEAST_PEERS} peers of its profile "
        f"with {LEAST_PEER_STARTS} starts"
    )


def _in_group(group: dict[Key, _Past]) -> Iterable[Lemon]:
    episodes = {key: one.episodes for key, one in group.items()}
    all_episodes, all_starts = sum(episodes.values()), sum(p.starts for p in group.values())
    for key, one in group.items():
        peers, theirs = all_starts - one.starts, all_episodes - episodes[key]
        if len(group) <= LEAST_PEERS or peers < LEAST_PEER_STARTS or episodes[key] < LEAST_EPISODES:
            continue
        # A node that was drained all the time has had few starts: it is compared as if it had had one at least.
        chance = min(1.0, chance_of(episodes[key], max(1, one.starts), theirs, peers) * len(group))
        if chance <= CHANCE:
            yield _lemon(key, one, episodes[key], chance, 1000.0 * theirs / peers)


def _lemon(key: Key, one: _Past, episodes: int, chance: float, peers: float) -> Lemon:
    return Lemon(
        cluster=key[0],
        node=key[1],
        profile=one.profile,
        starts=one.starts,
        episodes=episodes,
        per_1000=round(1000.0 * episodes / max(1, one.starts), 3),
        peers_per_1000=round(peers, 3),
        chance=chance,
        drains=len(one.at["drain"]),
        refusals=len(one.at["refusal"]),
        incidents=len(one.at["incident"]),
        began=len(one.at["began"]),
    )


def _read(connection: Connection, since: datetime) -> dict[Key, _Past]:
    past: dict[Key, _Past] = defaultdict(_Past)
    for row in connection.execute(select(node_status.c.cluster, node_status.c.node, node_status.c.facts)):
        facts = facts_of(row.facts)
        past[(row.cluster, row.node)].profile = f"{facts.profile} {facts.gpu_model}".strip() if facts else ""
    counts = select(starts.c.cluster, starts.c.node, func.count().label("n")).where(starts.c.at >= since)
    for row in connection.execute(counts.group_by(starts.c.cluster, starts.c.node)):
        past[(row.cluster, row.node)].starts = int(row.n)
    refused = select(starts.c.cluster, starts.c.node, starts.c.at).where(
        starts.c.outcome == REFUSED, starts.c.at >= since
    )
    drained = select(drains.c.cluster, drains.c.node, drains.c.created_at.label("at")).where(
        drains.c.owner == "ours-automatic", drains.c.created_at >= since
    )
    opened = select(incidents.c.cluster, incidents.c.node, incidents.c.first_seen.label("at")).where(
        incidents.c.kind == "finding", incidents.c.first_seen >= since
    )
    began = select(attributions.c.cluster, attributions.c.node, attributions.c.began_at.label("at")).where(
        attributions.c.blame == "node", attributions.c.at >= since
    )
    for kind, query in (("refusal", refused), ("drain", drained), ("incident", opened), ("began", began)):
        for row in connection.execute(query):
            if (key := (row.cluster, row.node)) in past:
                past[key].at[kind].append(row.at)
    return dict(past)
