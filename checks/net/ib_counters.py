"""No error counter of an RDMA port grows faster than its limit."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

from checks.declare import Skip, check, code, ok
from checks.growth import counters
from checks.host import Host
from checks.judge.policy import CounterRule, per_policy, usable
from checks.net.limits import HOUR, beyond
from checks.net.ports import jobs_ports
from checks.wire import Finding

GROWS = code(
    "rdma_errors",
    "warn",
    "fabric",
    "{means} ({growth} within {seconds:.0f} s, limit {limit} in {within:.0f} s)",
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
# A classic InfiniBand counter stops at its end instead of beginning anew (IBTA specification, PortCounters); those of
# the hardware below hw_counters begin anew. Where a rule names no end it is that of 32 bits.
END = 0xFFFFFFFF
WRAPPING = "hw_counters"
FOLDERS = ("counters", WRAPPING)
REFUSED = (errno.EINVAL, errno.EOPNOTSUPP)


@check(lane="rdma", interval=120, timeout=3.0, codes=(GROWS, FULL))
def ib_counters(
    host: Host, *, ignore: tuple[str, ...] = (), policy_dir: str = "/etc/nodevet/policy.d"
) -> Iterator[Finding]:
    """Growth of each counter in the policy's table ``counter`` on each port that is up; what stood before is history.

    What came while the agent was being restarted counts, too. Left out are ``ignore`` (adapters or ports), virtual
    functions, software adapters, what manages an NVSwitch, and the adapter of the default route unless it is
    InfiniBand. A counter that a device does not have is none, and one that it refuses to tell is not asked for again.
    Confirm by hand: ``grep . /sys/class/infiniband/*/ports/*/*counters/*``.

    ``policy_dir``: where the site's tables lie; the agent's own unless set.
    """
    seen = jobs_ports(host, ignore)
    if not seen:
        raise Skip("no RDMA port to be watched")
    watched, now, read = counters(host, "ib_counters"), host.clock(), 0
    for port in seen:
        there = {folder: _names(host, f"{port.folder}/{folder}") for folder in FOLDERS}
        for name, rule in _rules(policy_dir).items():
            folder, _, file = (rule.path or "").partition("/")
            if file not in there[folder] or rule.layer not in ("", None, port.layer):
                continue
            value = _value(host, f"{port.folder}/{folder}", file)
            if value is None:
                continue
            read += 1
            wraps = folder == WRAPPING
            grown = watched.of(f"{port.name} {name}").over(now, value, rule.within or HOUR, wraps=wraps)
            if (found := beyond(GROWS, port.name, name, rule, grown)) is not None:
                yield found
            elif not wraps and grown.count == 0 and value in (rule.end or END, END):
                yield FULL(port.name, counter=file, value=value)
    host.keep("counters", watched.plain())
    yield ok("node", f"{read} counters on {len(seen)} ports", ports=len(seen), counters=read)


def _names(host: Host, folder: str) -> frozenset[str]:
    """Which counters a port has; asked of the folder once while it exists, each driver has its own."""
    real = host.path(folder)
    known = host.kept("counter names", dict[str, tuple[tuple[int, int], frozenset[str]]])
    try:
        about = os.stat(real)
        key = about.st_ino, about.st_mtime_ns
        if folder not in known or known[folder][0] != key:
            known[folder] = key, frozenset(os.listdir(real))
    except OSError:
        return frozenset()
    return known[folder][1]


def _value(host: Host, folder: str, file: str) -> int | None:
    """The counter, or None where the device will not say.

    Some functions refuse, and their firmware complains in the kernel's log at each try (E75), so there is one only.
    """
    refused = host.kept("ib_counters refused", set[str])
    if folder in refused:
        return None
    try:
        text = host.read(f"{folder}/{file}").strip()
    except OSError as error:
        if error.errno in REFUSED:
            refused.add(folder)
        return None
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= 20 else None


@per_policy
def _rules(directory: str) -> dict[str, CounterRule]:
    """The table in force, without what is switched off and what belongs to an Ethernet interface."""
    table = usable(directory).counter.items()
    return {n: rule for n, rule in table if rule.path and "counters/" in rule.path and not rule.off}
