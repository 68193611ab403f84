"""What is remembered of each port in this boot, over restarts of the agent: ever up, last down, how often it fell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from checks.growth import Counters, counters
from checks.host import Host
from checks.net.port_codes import CAME_BACK, FLAPPING
from checks.net.ports import Port
from checks.wire import Finding

GROWTH_LIMIT = 10
"""link_downed may be other than 0 since boot; growth beyond this is the sign."""
WINDOW = 3600.0
STICKY = 600.0


class Memory(msgspec.Struct):
    """Ports that were ever up, and when one was last seen down after that, by our clock."""

    boot: str = ""
    up: set[str] = set()
    down_at: dict[str, float] = {}


def memory(host: Host) -> Memory:
    """That of this boot: device names may change with the next."""
    known = host.kept("ports", lambda: _recalled(host))
    if (boot := host.boot_id()) != known.boot:
        known.boot = boot
        known.up.clear()
        known.down_at.clear()
    return known


def _recalled(host: Host) -> Memory:
    try:
        found = msgspec.convert(host.memory.get("ports"), Memory)
    except msgspec.ValidationError:
        return Memory()
    now = host.clock()
    if not found.boot or any(at > now for at in found.down_at.values()):
        return Memory()
    return found


def keep(host: Host, known: Memory) -> None:
    """Have it remembered."""
    host.keep("ports", msgspec.to_builtins(known))
    host.keep("counters", counters(host, "ib_port").plain())


def unsteady(host: Host, known: Memory, seen: Sequence[Port]) -> Iterator[Finding]:
    """Links that fell too often of late, and ports that were down a moment ago; both end by themselves."""
    now, watched = host.clock(), counters(host, "ib_port")
    watched.only(p.name for p in seen)
    for port in seen:
        if port.up:
            ago = now - known.down_at.get(port.name, now - STICKY)
            if ago < STICKY:
                yield CAME_BACK(port.name, seconds=ago)
            known.up.add(port.name)
        elif port.name in known.up:
            known.down_at[port.name] = now
        yield from _flapping(watched, port, now)


def _flapping(watched: Counters, port: Port, now: float) -> Iterator[Finding]:
    if port.link_downed is not None:
        grown = watched.of(port.name).over(now, port.link_downed, WINDOW)
        if grown.beyond(GROWTH_LIMIT, WINDOW):
            yield FLAPPING(port.name, growth=grown.count, seconds=max(WINDOW, grown.seconds), limit=GROWTH_LIMIT)
