"""Host lists fold and expand within bounds, in the order in which Slurm gives them.

ClusterShell folds. Expansion is done here, since ClusterShell sorts what it reads (the first node of a job is
Slurm's first), expands a range before anybody can bound it, and takes ``@ ! & ^`` for groups and set operations.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator
from typing import TypeAlias

MAX_NAMES = 100_000
MAX_CHARS = 1_000_000

_ITEM = re.compile(r"(?:[A-Za-z0-9._-]|\[[0-9,-]{1,1000000}\])+")
_PIECE = re.compile(r"\[([0-9,-]*)\]|([A-Za-z0-9._-]+)")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")

_Part: TypeAlias = "str | tuple[int, int, int]"  # as written, or lowest number, highest number, digits


class HostlistError(ValueError):
    """A text is no host list, or names more nodes than the bound allows."""


class NoSuchGroup(HostlistError):
    """A partition or feature that is named has no node."""


def expand(hostlist: str, *, limit: int = MAX_NAMES) -> tuple[str, ...]:
    """Return the names of ``gpu[01-04,9],login1`` in order, each once; at most `limit` of them."""
    items = [_pieces(item) for item in _split(hostlist)]
    total = sum(_size(item) for item in items)
    if total > limit:
        raise HostlistError(f"host list names {total} nodes, limit is {limit}")
    names = ("".join(parts) for item in items for parts in itertools.product(*map(_values, item)))
    return tuple(dict.fromkeys(names))


def count(hostlist: str) -> int:
    """Return how many names the list has (a name given twice counts twice) without expanding it."""
    return sum(_size(_pieces(item)) for item in _split(hostlist))


def fold(names: Iterable[str]) -> str:
    """Write names as one short host list, ``gpu[01-04,9],login1``, sorted."""
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException  # 4 MiB that an agent never needs

    wanted = [name for listed in names for name in expand(listed)]
    try:
        return str(NodeSet.fromlist(wanted, resolver=RESOLVER_NOGROUP))
    except NodeSetException as error:
        raise HostlistError(f"names do not fold: {error}") from error


def first(hostlist: str) -> str:
    """Return the first node of the list, which is the batch host of a job."""
    return expand(hostlist)[0]


def node_rank(hostlist: str, name: str) -> int:
    """Return the place of `name` in the list, from 0."""
    try:
        return expand(hostlist).index(name)
    except ValueError as error:
        if isinstance(error, HostlistError):
            raise
        raise HostlistError(f"node {name[:64]} is not in the host list") from None


def _split(hostlist: str) -> Iterator[str]:
    """Yield the items between the commas that stand outside of brackets."""
    if len(hostlist) > MAX_CHARS:
        raise HostlistError(f"host list has {len(hostlist)} characters, limit is {MAX_CHARS}")
    if not hostlist:
        raise HostlistError("host list is empty")
    depth, begin = 0, 0
    for position, char in enumerate(hostlist):
        if char in "[]":
            depth += 1 if char == "[" else -1
            if depth not in (0, 1):
                raise HostlistError(f"brackets do not match at character {position}")
        elif char == "," and depth == 0:
            yield hostlist[begin:position]
            begin = position + 1
    if depth:
        raise HostlistError("a bracket is not closed")
    yield hostlist[begin:]


def _pieces(item: str) -> list[list[_Part]]:
    """Take ``r[1-2]n[01,04]`` apart into its literal and its bracketed pieces."""
    if _ITEM.fullmatch(item) is None:
        raise HostlistError(f"{item[:64]!r} is not a node name or a range of them")
    return [
        [literal] if literal else [_part(part) for part in body.split(",")] for body, literal in _PIECE.findall(item)
    ]


def _part(text: str) -> _Part:
    match = _RANGE.fullmatch(text)
    if match is None:
        raise HostlistError(f"{text[:64]!r} is not a range of numbers")
    low, high = match.groups()
    if high is None:
        return low
    if int(high) < int(low):
        raise HostlistError(f"range {text} runs backwards")
    return (int(low), int(high), len(low))


def _size(pieces: list[list[_Part]]) -> int:
    return math.prod(sum(1 if isinstance(part, str) else part[1] - part[0] + 1 for part in piece) for piece in pieces)


def _values(piece: list[_Part]) -> Iterator[str]:
    for part in piece:
        if isinstance(part, str):
            yield part
        else:
            low, high, width = part
            yield from (f"{value:0{width}d}" for value in range(low, high + 1))
