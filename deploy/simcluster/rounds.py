"""Between two rounds of a node's own looks only a Prolog can see what breaks; this finds such a moment."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from daemon.cli.local import get
from deploy.simcluster.cluster import SimCluster


class _Age(msgspec.Struct):
    name: str
    interval: float
    age: float | None


class _Seen(msgspec.Struct):
    checks: list[_Age]


def between_rounds(cluster: SimCluster, node: str, watching: Collection[str]) -> None:
    """Wait for a moment when these checks looked at the node a while ago and will not for a while."""
    socket = str(cluster.base / "agents" / node / "agent.sock")

    def between() -> bool:
        seen = msgspec.json.decode(get(socket, "/v1/status"), type=_Seen)
        ages = [(c.age, c.interval) for c in seen.checks if c.name in watching]
        return bool(ages) and all(a is not None and 1.5 < a < interval - 4.0 for a, interval in ages)

    limit = 2 * cluster.options.interval + 20
    cluster.wait_for(between, limit, lambda: f"no moment between two rounds on {node}")
