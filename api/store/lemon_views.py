"""What tells of a bad node although every check is green, as it goes out; no user is named or can be told."""

from __future__ import annotations

from datetime import datetime

import msgspec


class FailingNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node where jobs failed more often than those of the same users, partitions, sizes and days elsewhere.

    ``failed`` of ``jobs`` failed there, ``expected`` would have by chance; ``chance``: how often luck alone would make
    any node of the cluster look so.
    """

    cluster: str
    node: str
    jobs: int
    failed: int
    expected: float
    users: int
    chance: float


class ExcludedNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node that several users exclude by hand: how many, on how many days, and when last."""

    cluster: str
    node: str
    users: int
    days: int
    last_seen: datetime
