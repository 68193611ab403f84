"""Nodes are named by a host list, by ``@partition`` and by ``@feature=NAME``, in one comma-separated text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slurm.hostlist import MAX_NAMES, HostlistError, NoSuchGroup, expand
from slurm.state import NodeState

FEATURE = "feature="


def select(text: str, nodes: Mapping[str, NodeState], *, limit: int = MAX_NAMES) -> tuple[str, ...]:
    """Return the names that the text means, each once, in its order; groups are looked up in ``nodes``."""
    names: list[str] = []
    for item in _items(text):
        names += _group(item[1:], nodes) if item.startswith("@") else expand(item, limit=limit)
        if len(names) > 2 * limit:
            break
    found = tuple(dict.fromkeys(names))
    if len(found) > limit:
        raise HostlistError(f"host list names more than {limit} nodes")
    return found


def written(text: str, *, limit: int = MAX_NAMES) -> None:
    """Raise HostlistError where the text cannot be understood, whatever nodes there are."""
    plain = ",".join(item for item in _items(text) if not item.startswith("@"))
    if plain:
        expand(plain, limit=limit)


def _items(text: str) -> Iterator[str]:
    """The parts between commas outside of brackets; neighbours that name nodes stay together."""
    plain: list[str] = []
    for part in text.split(","):
        if not part.startswith("@"):
            plain.append(part)
            continue
        if plain:
            yield ",".join(plain)
            plain = []
        yield part
    if plain:
        yield ",".join(plain)


def _group(name: str, nodes: Mapping[str, NodeState]) -> list[str]:
    if name.startswith(FEATURE):
        word = name.removeprefix(FEATURE)
        found = [n for n, s in nodes.items() if word in s.features]
        what = f"node with the active feature {word[:64]!r}"
    else:
        found = [n for n, s in nodes.items() if name in s.partitions]
        what = f"node in a partition {name[:64]!r}"
    if not found:
        raise NoSuchGroup(f"no {what}")
    return sorted(found)
