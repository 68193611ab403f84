"""No error counter of an RDMA port grows faster than its limit."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

import msgspec

from checks.declare import Skip, check, code, ok
from checks.host import Host
from checks.judge.policy import CounterRule, usable
from checks.net.ports import Port, ports
from checks.wire import Finding

GROWS = code(
    "rdma_errors",
    "warn",
    "fabric",
    "{means} ({growth} within {seconds:.0f} s, limit {limit})",
    explain="Collectives slow down or stall. Confirm: `grep . /sys/class/infiniband/<adapter>/ports/*/*counters/*` "
    "twice, `mlxlink -d <adapter> -c`, the counters of the switch's port. Do: clean or replace cable and transceiver; "
    "which end is bad a counter does not say.",
)
FULL = code(
    "rdma_counter_full",
    "warn",
    "config",
    "counter {counter} stands at its end ({value}) and counts no more",
    explain="New errors will not be seen. Confirm: `perfquery -x`. Do: clear it, `perfquery -R`.",
)
# A classic InfiniBand counter stops at its end instead of beginning anew (IBTA specification, PortCounters).
ENDS = (0xFFFF, 0xFFFFFFFF)
KEPT = 512


@dataclass(slots=True)
class _Series:
    """What one counter was at each look, the times by our clock."""

    seen: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=KEPT))

    def growth(self, now: float, value: int, within: float) -> tuple[int, float]:
        """How much it grew within that time and how long that was; one that went back began anew."""
        if self.seen and value < self.seen[-1][1]:
            self.seen.clear()
            self.seen.append((now, 0))
        while len(self.seen) > 1 and now - self.seen[1][0] >= within:
            self.seen.popleft()
        self.seen.append((now, value))
        return value - self.seen[0][1], now - self.seen[0][0]


@check(lane="rdma", interval=60, timeout=3.0, codes=(GROWS, FULL))
def ib_counters(
    host: Host, *, ignore: tuple[str, ...] = (), policy_dir: str = "/etc/nodevet/policy.d"
) -> Iterator[Finding]:
    """Growth of each counter in the policy's table ``counter`` on each port that is up; what stood before is history.

    Left out are ``ignore`` (adapters or ports), virtual functions, what manages an NVSwitch, and the adapter of the
    default route unless it is InfiniBand. A counter that a device does not have is none. Confirm by hand:
    ``grep . /sys/class/infiniband/*/ports/*/counters/*``.
    """
    seen = [p for p in ports(host) if not p.error and _counts(p, ignore)]
    if not seen:
        raise Skip("no RDMA port to be watched")
    series = host.kept("ib_counters", dict[tuple[str, str], _Series])
    now, read = host.clock(), 0
    for port in seen:
        for name, rule in _rules(policy_dir).items():
            value = _value(host, port, rule) if rule.layer in ("", None, port.layer) else None
            if value is None:
                continue
            read += 1
            within = rule.within or 3600.0
            growth, seconds = series.setdefault((port.name, name), _Series()).growth(now, value, within)
            if value in ENDS and growth == 0:
                yield FULL(port.name, counter=(rule.path or "").rpartition("/")[2], value=value)
            elif growth > (rule.limit or 0):
                yield _found(port, name, rule, growth, seconds)
    yield ok("node", f"{read} counters on {len(seen)} ports", ports=len(seen), counters=read)


def _counts(port: Port, ignore: tuple[str, ...]) -> bool:
    if port.name in ignore or port.name.partition("/")[0] in ignore:
        return False
    return port.up and not (port.management and port.layer != "InfiniBand")


def _value(host: Host, port: Port, rule: CounterRule) -> int | None:
    """The counter, or None where the device has none of this name or will not say."""
    adapter, _, number = port.name.partition("/")
    try:
        text = host.read(f"/sys/class/infiniband/{adapter}/ports/{number}/{rule.path}").strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def _found(port: Port, name: str, rule: CounterRule, growth: int, seconds: float) -> Finding:
    found = GROWS(
        port.name, means=rule.means or name, growth=growth, seconds=seconds, limit=rule.limit or 0, counter=name
    )
    return msgspec.structs.replace(found, status=rule.status or found.status, blame=rule.blame or found.blame)


@cache
def _rules(directory: str) -> dict[str, CounterRule]:
    """The table in force, without what is switched off."""
    return {name: rule for name, rule in usable(directory).counter.items() if rule.path and not rule.off}
